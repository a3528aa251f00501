// What must never happen: text that acts, requests elsewhere, a page that stays dead, a phone that scrolls sideways.
import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { pageTest, goTo, shown, until } from './harness'

const EVIL = `<img src=x onerror="window.__owned=1"><script>window.__owned=1</script>`
const ROUTES = ['#/', '#/queue', '#/running', '#/history', '#/sweeps', '#/machines', '#/submit', '#/submit?tab=sweep', '#/submit?tab=batch']

const owned = (page: Page) => page.evaluate(() => '__owned' in window || document.querySelector('img, script:not([src])') !== null)

pageTest('hostile text is text', async (world) => {
  const page = await world.open()
  const print = `printf '%s' '${EVIL}'; printf '\\033]0;stolen\\007\\033]8;;javascript:alert(1)\\033\\\\click\\033]8;;\\033\\\\\\033[2Jend\\n'; read x`
  const id = world.nexus('add', '--name', EVIL, '--tag', 'a"b<i>', '--project', '<u>p', `${print} # ${EVIL}`)
  world.nexus('add', '--name', EVIL, '--gpus', '4', `true # ${EVIL}`)
  await goTo(page, `#/jobs/${id}`)
  await shown(page.getByRole('log').getByText('<img src=x'))
  await shown(page.getByRole('log').getByText('click', { exact: false }))
  assert.equal(await page.getByRole('log').locator('a').count(), 0, 'nothing in a log can be clicked')
  await page.getByRole('button', { name: 'Terminal' }).click()
  await shown(page.getByText('Connected: what you type goes to the job'))
  assert.equal(await page.title(), `${id} · nexus`)
  for (const route of ROUTES) {
    await goTo(page, route)
    await shown(page.locator('h1'))
    assert.equal(await owned(page), false, route)
  }
  assert.doesNotMatch(await page.title(), /stolen/)
})

pageTest('nothing is asked of anybody else', async (world) => {
  const page = await world.open()
  const id = world.nexus('add', 'echo https://wandb.ai/x/y/runs/z; sleep 1000')
  for (const route of [...ROUTES, `#/jobs/${id}`, `#/jobs/${id}?view=terminal`]) {
    await goTo(page, route)
    await shown(page.locator('h1'))
  }
  await shown(page.getByText('Connected: what you type goes to the job'))
  const own = new URL(page.url()).origin
  const strangers = world.requests.filter((url) => new URL(url).origin !== own && !url.startsWith('data:'))
  assert.deepEqual(strangers, [])
})

pageTest('a service that restarts is found again, without a reload', async (world) => {
  const page = await world.open()
  const id = world.nexus('add', '--name', 'survivor', 'while read line; do echo "heard $line"; done')
  await goTo(page, `#/jobs/${id}?view=terminal`)
  await shown(page.getByText('Connected: what you type goes to the job'))
  await page.evaluate(() => Object.assign(window, { __same: true }))
  world.nexus('stop', '--keep-jobs')
  await shown(page.getByText('The service does not answer.'))
  world.nexus('start')
  await page.getByText('The service does not answer.').waitFor({ state: 'detached' })
  await shown(page.getByText('Connected: what you type goes to the job'))
  await page.locator('.xterm-helper-textarea').focus()
  await page.keyboard.type('again')
  await page.keyboard.press('Enter')
  await page.getByRole('button', { name: 'Log', exact: true }).click()
  await shown(page.getByRole('log').getByText('heard again'))
  const other = world.nexus('add', '--name', 'afterwards', 'sleep 1000')
  await goTo(page, '#/running')
  await shown(page.getByRole('row', { name: /afterwards/ }))
  assert.equal(world.state(other), 'running')
  assert.equal(await page.evaluate(() => '__same' in window), true, 'it is the same page')
})

pageTest('without a key the page says how to get one', async (world) => {
  const inside = await world.open()
  const outside = await (await world.context()).newPage()
  await outside.goto(new URL('/', inside.url()).href)
  await shown(outside.getByText('nexus web', { exact: true }))
})

pageTest('nothing scrolls sideways on a phone', async (world) => {
  const page = await world.open({ viewport: { width: 390, height: 844 } })
  const long = 'x'.repeat(300)
  const name = 'y'.repeat(100)
  const id = world.nexus('add', '--name', name, '--tag', 'a-long-tag-that-goes-on', `echo ${long}; sleep 1000 # ${long}`)
  world.nexus('add', '--gpus', '4', '--name', name, `true # ${long}`)
  world.nexus('sweep', '--name', 'grid', '--gpus', '0', 'true {lr}', 'lr=1..3')
  for (const route of [...ROUTES, '#/sweeps/grid', `#/jobs/${id}`]) {
    await goTo(page, route)
    await shown(page.locator('h1'))
    await until(`${route} fits`, () => page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth))
  }
  await page.getByRole('button', { name: 'Menu' }).click()
  await page.getByRole('link', { name: /^Queue/ }).click()
  await shown(page.getByRole('heading', { name: 'Queue' }))
})

pageTest('keys lead everywhere', async (world) => {
  const page = await world.open()
  await page.keyboard.press('g')
  await page.keyboard.press('h')
  await shown(page.getByRole('heading', { name: 'History' }))
  await page.keyboard.press('/')
  await until('the search has the focus', () => page.evaluate(() => document.activeElement?.getAttribute('type') === 'search'))
  await page.keyboard.press('Escape')
  await page.keyboard.press('n')
  await shown(page.getByRole('heading', { name: 'New job' }))
  await page.keyboard.press('?')
  await shown(page.getByRole('dialog', { name: 'Keyboard shortcuts' }))
})
