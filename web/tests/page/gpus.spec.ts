// GPUs: paused, and used by processes that are no jobs.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { pageTest, shown, until, type FakeGpu } from './harness'

const gpu = (letter: string, more: Partial<FakeGpu> = {}): FakeGpu => ({
  uuid: `GPU-${letter.repeat(8)}-0000-0000-0000-000000000000`, name: 'NVIDIA GeForce RTX 3090', memory_mib: 24576, used_mib: 1, load: 0,
  temperature: 30, power_w: 20, processes: [], ...more,
})

pageTest('a GPU is paused and resumed', async (world) => {
  const page = await world.open()
  const card = page.getByRole('article', { name: 'GPU 1' })
  await shown(card.getByText('Available'))
  await page.getByRole('button', { name: 'Pause GPU 1' }).click()
  await shown(card.getByText('Paused: takes no new job'))
  assert.match(world.nexus('gpus'), /paused/)
  await page.getByRole('button', { name: 'Resume GPU 1' }).click()
  await shown(card.getByText('Available'))
})

pageTest('load is drawn, and a foreign process is named', async (world) => {
  const page = await world.open()
  const card = page.getByRole('article', { name: 'GPU 1' })
  await shown(card.getByText('Available'))
  const stranger = spawn('sleep', ['1000'])
  try {
    const pid = stranger.pid ?? 0
    world.setGpus([gpu('a', { load: 42, temperature: 61 }), gpu('b', { used_mib: 2049, processes: [{ pid, memory_mib: 2048 }] })])
    await shown(card.getByText('In use outside nexus'))
    await shown(card.getByText(new RegExp(`pid ${pid} .*sleep, 2G`)))
    const first = page.getByRole('article', { name: 'GPU 0' })
    await shown(first.getByText('42%'))
    await shown(first.getByText('61 °C'))
    await until('its chart is drawn', async () => (await first.locator('canvas').count()) === 1)
  } finally {
    stranger.kill()
  }
}, { gpus: [gpu('a'), gpu('b')] })
