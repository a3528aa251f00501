// The queue: moved by hand and by keys, selected, paused; and two tabs that stay in step.
import assert from 'node:assert/strict'
import type { Page } from 'playwright-core'
import { pageTest, goTo, shown, until, type World } from './harness'

function fill(world: World, count: number): string[] {
  world.nexus('pause')
  return Array.from({ length: count }, (_, index) => world.nexus('add', '--name', `job-${index}`, 'true'))
}

async function order(page: Page): Promise<(string | null)[]> {
  return page.locator('.queue-list .row').evaluateAll((rows) => rows
    .sort((a, b) => a.getBoundingClientRect().top - b.getBoundingClientRect().top)
    .map((row) => row.getAttribute('data-job')))
}

pageTest('a job is dragged to another place', async (world) => {
  const ids = fill(world, 4)
  const page = await world.open()
  await goTo(page, '#/queue')
  const rows = page.locator('.queue-list .row')
  await until('all are there', async () => (await rows.count()) === 4)
  const from = await rows.filter({ hasText: 'job-3' }).locator('.drag-handle').boundingBox()
  const to = await rows.filter({ hasText: 'job-1' }).boundingBox()
  assert.ok(from && to)
  await page.mouse.move(from.x + 6, from.y + 6)
  await page.mouse.down()
  await page.mouse.move(to.x + 30, to.y + 20, { steps: 8 })
  await page.mouse.move(to.x + 30, to.y + 8, { steps: 3 })
  await page.mouse.up()
  const wanted = [ids[0], ids[3], ids[1], ids[2]]
  await until('the service has the new order', () => assertSame(world.waiting(), wanted))
  await until('the page has it too', async () => assertSame(await order(page), wanted))
})

function assertSame(seen: unknown[], wanted: unknown[]): boolean {
  return JSON.stringify(seen) === JSON.stringify(wanted)
}

pageTest('keys move a job, and mark several', async (world) => {
  const ids = fill(world, 3)
  const page = await world.open()
  await goTo(page, '#/queue')
  await page.locator(`[data-job="${ids[2]}"]`).focus()
  await page.keyboard.press('Alt+ArrowUp')
  await until('it moved', () => assertSame(world.waiting(), [ids[0], ids[2], ids[1]]))
  await page.keyboard.press('Alt+ArrowUp')
  await until('it kept the focus and moved on', () => assertSame(world.waiting(), [ids[2], ids[0], ids[1]]))
  await page.getByLabel(`Select ${ids[2]}`).click()
  await page.getByLabel(`Select ${ids[1]}`).click({ modifiers: ['Shift'] })
  await shown(page.getByText('3 jobs selected'))
  await page.getByRole('toolbar').getByRole('button', { name: 'Hold' }).click()
  await until('all are held', () => ids.every((id) => world.state(id) === 'held'))
  await page.getByLabel(`Select ${ids[0]}`).click()
  await page.getByRole('toolbar').getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await until('it is gone', async () => (await page.locator('.queue-list .row').count()) === 2)
})

pageTest('the queue is paused and goes on', async (world) => {
  const page = await world.open()
  await goTo(page, '#/queue')
  await page.getByRole('button', { name: 'Pause queue' }).click()
  await shown(page.getByText('Queue paused', { exact: true }))
  const id = world.nexus('add', 'true')
  await shown(page.getByText('The queue is paused', { exact: true }))
  await page.getByRole('button', { name: 'Resume queue' }).click()
  await shown(page.getByText('Nothing waits'))
  await until('it ran', () => world.state(id) === 'completed')
})

pageTest('two tabs stay in step', async (world) => {
  const context = await world.context()
  const [one, two] = [await world.enter(context), await context.newPage()]
  await two.goto(new URL('/#/queue', one.url()).href)
  await goTo(one, '#/queue')
  const [id] = fill(world, 1)
  await shown(one.locator(`[data-job="${id}"]`))
  await shown(two.locator(`[data-job="${id}"]`))
  await one.getByRole('button', { name: `More for ${id}` }).click()
  await one.getByRole('menuitem', { name: 'Remove' }).click()
  await one.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await shown(one.getByText('Nothing waits'))
  await shown(two.getByText('Nothing waits'))
})
