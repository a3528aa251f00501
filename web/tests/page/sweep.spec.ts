// Sweeps and batches: seen beforehand, queued, drawn.
import assert from 'node:assert/strict'
import { pageTest, goTo, shown, until } from './harness'

pageTest('a sweep is tried out, queued and drawn', async (world) => {
  const page = await world.open()
  await goTo(page, '#/submit?tab=sweep')
  await page.getByLabel('Command').fill('echo "final loss: 0.{lr}"; test {lr} != 3')
  await page.getByLabel('Name of parameter 1').fill('lr')
  await page.getByLabel('Values of parameter 1').fill('1..4')
  await page.getByLabel('Values to take from the output').fill('loss=final loss: ([0-9.]+)')
  await page.getByLabel('Sweep name').fill('grid')
  await shown(page.getByRole('heading', { name: '4 jobs' }))
  await shown(page.getByLabel('Preview').getByText('echo "final loss: 0.2"; test 2 != 3'))
  await page.getByRole('button', { name: 'Queue 4 jobs' }).click()
  await shown(page.getByText('4 of 4 jobs ended'))
  await shown(page.getByRole('img', { name: 'loss against lr, 4 points' }))
  await shown(page.getByRole('row', { name: /failed/ }))

  await page.getByRole('button', { name: 'Sort by loss' }).click()
  await page.getByRole('button', { name: 'Sort by loss' }).click()
  const tops = page.locator('.sweep-table .row').filter({ hasText: '0.4' })
  await until('the largest is first', async () => (await tops.first().evaluate((row) => row.style.top)) === '0px')
  await page.getByRole('button', { name: 'Run 1 failed again' }).click()
  await shown(page.getByText(/Queued again as/))
  await goTo(page, '#/sweeps')
  await shown(page.getByRole('link', { name: /grid/ }))
})

pageTest('a batch is read entry by entry', async (world) => {
  const page = await world.open()
  await goTo(page, '#/submit?tab=batch')
  const out = `${world.folder}/first.log`
  await page.getByLabel('Jobs').fill(`first;;${out};;echo one;;;\nsecond;;${world.folder}/second.log;;echo two;;;\nhalf;;x`)
  await shown(page.getByText('2 new jobs'))
  await shown(page.getByText(/Line 3: .*;;;.* is missing/))
  await page.getByLabel('Jobs').fill(`first;;${out};;echo one;;;\nsecond;;${world.folder}/second.log;;echo two;;;`)
  await page.getByRole('button', { name: 'Queue 2 jobs' }).click()
  await shown(page.getByText('Queued 2 jobs'))
  await goTo(page, '#/history')
  await until('both ended', async () => (await page.getByRole('row', { name: /completed/ }).count()) === 2)
  assert.match(await page.locator('.history-list').innerText(), /first[\s\S]*second|second[\s\S]*first/)
})
