// The pool: a machine over a real ssh, its GPUs and jobs, and what is done to it.
import assert from 'node:assert/strict'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { goTo, pageTest, shown, until, type World } from './harness'
import { Sshd, noSshd } from './sshd'

interface Told {
  name: string
  pool: { state: string; class: string; jobs: string[] }
}

const told = (world: World) => JSON.parse(world.nexus('machine', 'ls', '--json')) as Told[]
const host1 = (world: World) => told(world).find((machine) => machine.name === 'host1')?.pool

/** With a second machine, `host1`, that has two GPUs. */
function poolTest(name: string, body: (world: World, sshd: Sshd) => Promise<void>): void {
  pageTest(name, async (world) => {
    const sshd = await Sshd.start(join(world.folder, 'ssh'))
    try {
      world.nexus('config', 'set', 'ssh.args', JSON.stringify(['-F', sshd.config]))
      mkdirSync(join(world.folder, 'there'))
      world.nexus('machine', 'add', 'host1', '--home', join(world.folder, 'there'), '--simulate-gpus', '2')
      await body(world, sshd)
    } finally {
      // What runs there would go on after the test.
      if (host1(world) !== undefined) world.nexus('machine', 'rm', 'host1', '--kill')
      await until('it is gone', () => host1(world) === undefined)
      sshd.down()
    }
  }, { missing: noSshd })
}

poolTest('GPUs stand by their machine, and a job says which it is on', async (world) => {
  const page = await world.open()
  const there = page.getByRole('region', { name: 'Machine host1' })
  await shown(there.getByRole('article', { name: 'GPU 1 of host1' }).getByText('Available'))
  await page.getByRole('button', { name: 'Pause GPU 1 of host1' }).click()
  await shown(there.getByText('Paused: takes no new job'))
  assert.equal(await page.getByRole('region', { name: 'Machine local' }).getByText('Paused').count(), 0)

  await goTo(page, '#/submit')
  await page.getByLabel('Command').fill('sleep 1000')
  await page.getByLabel('Folder').fill('/tmp')
  await page.getByLabel('Machine', { exact: true }).selectOption('host1')
  await shown(page.getByText('Starts now on GPU 0 of host1'))
  await page.getByRole('button', { name: 'Queue job' }).click()
  await shown(page.locator('.head .state.running'))
  await shown(page.locator('.job-side').getByText('GPU 0 of host1'))
  await goTo(page, '#/running')
  await shown(page.getByRole('row', { name: /host1:0/ }))
})

poolTest('a machine is paused, moved, lost and taken out', async (world, sshd) => {
  const page = await world.open()
  await goTo(page, '#/machines')
  const row = page.getByRole('row', { name: /host1/ })
  await shown(row.getByText('Ready'))
  await page.getByRole('button', { name: 'Pause host1' }).click()
  await shown(row.getByText('Paused'))
  const waits = world.nexus('add', '--machine', 'host1', 'sleep 1000')
  await goTo(page, '#/queue')
  await shown(page.getByRole('row', { name: /Machine host1 is paused/ }))
  await goTo(page, '#/machines')
  await page.getByRole('button', { name: 'Resume host1' }).click()
  await shown(row.getByRole('link', { name: waits }))

  await page.getByRole('button', { name: 'More for host1' }).click()
  await page.getByRole('menuitem', { name: 'Move to a class' }).click()
  await page.getByRole('dialog').getByLabel('Class').fill('big')
  await page.getByRole('dialog').getByRole('button', { name: 'Move' }).click()
  await shown(row.getByRole('cell', { name: 'big', exact: true }))

  sshd.down()
  await shown(row.getByText(/^Unreachable since/))
  await goTo(page, '#/')
  await shown(page.getByRole('region', { name: 'Machine host1' }).getByText(/^Unreachable: /))
  await sshd.up()
  world.nexus('machine', 'resume', 'host1')
  await until('its line is back', () => host1(world)?.state === 'ready')

  await goTo(page, '#/machines')
  await page.getByRole('button', { name: 'More for host1' }).click()
  await page.getByRole('menuitem', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Remove' }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Wait for the end' }).click()
  await shown(row.getByText('Leaving'))
  world.nexus('kill', '-y', waits)
  await until('it is gone', async () => host1(world) === undefined && (await row.count()) === 0)
})
