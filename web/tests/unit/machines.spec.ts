// Machines of the pool, and places on them, in words.
import assert from 'node:assert/strict'
import test from 'node:test'
import type { Gpu, InPool, Machine } from '../../src/api/service'
import { classesOf, gpuKinds, isClosed, isMeant, isReached, standing } from '../../src/text/machines'
import { gpuName, needs, placeInRow, placeOf, placeOfRun, wanted } from '../../src/text/place'

const READY: InPool = {
  state: 'ready', detail: null, hint: null, class: 'default', address: null, hostname: null, ram_mib: null, home: null, round_trip_ms: null, since: null,
  again_at: null, added_at: null, jobs: [],
}

const gpu = (name: string, memory_mib: number, simulated = false) => ({ name, memory_mib, simulated }) as Gpu
const machine = (name: string, pool: Partial<InPool> = {}, more: Partial<Machine> = {}): Machine => ({ name, cpus: 8, gpus: [], error: null, pool: { ...READY, ...pool }, ...more })

test('one that takes jobs has nothing to be said of', () => {
  assert.equal(standing(machine('local')), null)
  const alone: Machine = { name: 'local', cpus: 8, gpus: [], error: null }
  assert.equal(standing(alone), null)
  assert.equal(isClosed(alone), false)
})

test('one that takes none says why', () => {
  assert.equal(standing(machine('box', { state: 'unreachable', detail: 'it does not answer' })), 'unreachable: it does not answer')
  assert.equal(standing(machine('box', { state: 'connecting' })), 'connecting')
  assert.equal(standing(machine('box', { state: 'paused' })), 'paused: nothing new starts there')
  assert.match(standing(machine('box', { state: 'leaving' })) ?? '', /when its last job has ended/)
  assert.equal(isClosed(machine('box', { state: 'paused' })), true)
  assert.equal(isReached(machine('box', {}, { cpus: 0 })), false)
})

test('GPUs are counted by their kind', () => {
  const gpus = [gpu('NVIDIA GeForce RTX 3090', 24576), gpu('NVIDIA GeForce RTX 3090', 24576), gpu('x', 16384, true)]
  assert.equal(gpuKinds(machine('box', {}, { gpus })).replaceAll('\u00a0', ' '), '2 × RTX 3090, 24 GB + 1 × simulated, 16 GB')
  assert.equal(gpuKinds(machine('box')), '')
  const partition = (name: string, kind: string, total: number) => ({ name, nodes: 3, usable: 3, gpus: [{ kind, per_node: 2, total }] })
  const partitions = [partition('a', 'a100', 8), partition('b', 'a100', 4), partition('c', '', 6), partition('d', '', 2)]
  const slurm = { version: '22.05', partitions, submitted: 0, running: 0 }
  assert.equal(gpuKinds(machine('hpc', { slurm })).replaceAll('\u00a0', ' '), '8 × a100 + 6 × GPU')
})

test('classes, and the machines a job may go to', () => {
  const machines = [machine('local'), machine('one', { class: 'small' }), machine('two', { class: 'big' }), machine('three', { class: 'big' }), machine('new', { class: null })]
  assert.deepEqual(classesOf(machines), ['default', 'big', 'small'])
  const meant = (request: { class?: string; machine?: string }) => machines.filter((one) => isMeant(one, request)).map((one) => one.name)
  assert.deepEqual([meant({}), meant({ class: 'big' }), meant({ class: 'big', machine: 'new' })], [['local'], ['two', 'three'], ['new']])
})

test('a place names its machine where that is another one', () => {
  const job = (where: string | null, gpus: number[], asked = 1) => ({ machine: where, gpus, request: { gpus: asked }, attempt: 1 })
  assert.deepEqual([placeOf(job('local', [0])), placeInRow(job('local', [0]))], ['GPU 0', 'GPU 0'])
  assert.deepEqual([placeOf(job('box', [0, 1, 2])), placeInRow(job('box', [0, 1, 2]))], ['GPUs 0-2 of box', 'box:0-2'])
  assert.deepEqual([placeOf(job('box', [], 0)), placeInRow(job('box', [], 0))], ['CPU of box', 'box:CPU'])
  assert.equal(placeInRow({ ...job(null, []), attempt: 0 }), '')
  assert.equal(placeOfRun({ machine: 'box', gpus: [] }), 'CPU of box')
  assert.deepEqual([gpuName('local', 3), gpuName('box', 3)], ['GPU 3', 'GPU 3 of box'])
})

test('what is asked for says where', () => {
  assert.equal(needs({ gpus: 2, class: 'big' }), '2 GPUs, on a machine of class big')
  assert.equal(needs({ machine: 'box' }), '1 GPU, on box')
  assert.deepEqual([wanted({}), wanted({ class: 'big' }), wanted({ class: 'big', machine: 'box' })], [null, 'class big', 'box'])
})
