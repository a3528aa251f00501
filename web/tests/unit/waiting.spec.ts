// Every reason to wait has its sentence with the numbers.
import assert from 'node:assert/strict'
import test from 'node:test'
import type { GpusMissing, Job, Waiting } from '../../src/api/jobs'
import { remedy, sentence, waitingThere } from '../../src/text/waiting'

const NONE: GpusMissing = {
  need: 1, part: null, vram_mib: null, on: null, model: null, exist: 0, free: 0, held: 0, shared: 0, full: 0, low_memory: 0, busy: 0, outside: 0,
  paused: 0, unreadable: 0, most_part: null, most_free_mib: null, mig: [], left_out: [], other_model: [], too_small: [],
}

const gpus = (given: Partial<GpusMissing>): Waiting => ({ kind: 'gpus', ...NONE, ...given })
const noSuch = (given: Partial<GpusMissing>): Waiting => ({ kind: 'no-such-gpus', ...NONE, ...given })

type InSlurm = Extract<Waiting, { kind: 'slurm' }>
const slurm = (given: Partial<InSlurm>): InSlurm =>
  ({ kind: 'slurm', machine: 'hpc', job: '12_3', state: 'PENDING', reason: '', meaning: null, start: null, nodes: '', ...given })

const now = new Date(2024, 9, 24, 17, 45)
const later = new Date(2024, 9, 24, 17, 50).toISOString()

const CASES: [Waiting, string][] = [
  [{ kind: 'held' }, 'held'],
  [{ kind: 'queue-paused', after_failures: null }, 'the queue is paused'],
  [{ kind: 'queue-paused', after_failures: 3 }, 'the queue paused itself after 3 failed jobs in a row'],
  [{ kind: 'sweep-stopped', failures: 3, failure: 'exit 1' }, 'held: the first 3 jobs of its sweep failed, exit 1'],
  [{ kind: 'sweep-full', running: 2, limit: 2 }, '2 of its sweep run, 2 may at once'],
  [{ kind: 'after', jobs: ['abd', 'abe'], count: 4 }, 'comes after abd, abe and 2 more'],
  [{ kind: 'retry', until: later }, 'tried again at 17:50'],
  [{ kind: 'delayed', until: later }, 'begins at 17:50'],
  [{ kind: 'kept', job: 'abd', at: later }, 'room is kept for abd, to start by 17:50'],
  [{ kind: 'kept', job: 'abd' }, 'room is kept for abd, which waited long'],
  [noSuch({}), 'needs 1 GPU, there are none'],
  [noSuch({ need: 8, exist: 4 }), 'needs 8 GPUs, there are 4'],
  [noSuch({ on: [2, 3, 4], mig: [2], left_out: [3, 4] }), 'needs 1 GPU of 2-4, there are none; GPU 2 is in MIG mode; GPUs 3,4 are left out by gpus.use'],
  [noSuch({ need: 2, model: 'a100', other_model: [0, 1] }), 'needs 2 A100 GPUs, there are none; GPUs 0,1 are of another model'],
  [gpus({ need: 2, free: 1, held: 3 }), 'needs 2 GPUs: 1 free, 3 held by jobs'],
  [gpus({ held: 2, outside: 1, paused: 1 }), 'needs 1 GPU: 2 held by jobs, 1 in use outside nexus, 1 paused'],
  [gpus({}), 'needs 1 GPU: none is free'],
  [gpus({ part: 0.5, most_part: 0.25, full: 1, held: 1 }), 'needs 0.5 GPU: 1 held by jobs, 1 full (0.25 left)'],
  [gpus({ vram_mib: 8192, most_free_mib: 3600, low_memory: 1, busy: 1 }), 'needs 8G of 1 GPU: 1 short of memory (3.5G left), 1 too busy to share'],
  [slurm({}), 'waits in hpc as 12_3'],
  [slurm({ reason: 'Resources', meaning: 'all is in use' }), 'waits in hpc as 12_3, Resources: all is in use'],
  [slurm({ job: null, state: 'REFUSED', reason: 'it is full' }), 'hpc takes no more at the moment: it is full'],
  [slurm({ job: null, state: 'UNCLEAR', reason: 'timed out' }), 'hpc was asked and did not answer: timed out'],
  [slurm({ state: 'CONFIGURING' }), 'is CONFIGURING in hpc as 12_3'],
  [{ kind: 'cluster-full', runs: 20, most: 20 }, '20 jobs in the cluster, which is to have 20 at most'],
  [{ kind: 'cpus', need: 8, free: 2 }, 'needs 8 CPUs: 2 of 16 free'],
  [{ kind: 'no-such-cpus', need: 32, exist: 16 }, 'needs 32 CPUs, there are 16'],
  [{ kind: 'ram', need_mib: 16384, free_mib: 9000 }, 'needs 16G of memory: 8.8G not given to jobs'],
  [{ kind: 'no-such-ram', need_mib: 1 << 20, exist_mib: 24000 }, 'needs 1024G of memory, there are 23.4G'],
  [{ kind: 'machines', class: 'big', machine: null, unreachable: 2, paused: 1, quarantined: 0 }, 'no machine of class big takes jobs: 2 unreachable, 1 paused'],
  [{ kind: 'machines', class: null, machine: null, unreachable: 0, paused: 1, quarantined: 0 }, 'no machine of class default takes jobs: 1 paused'],
  [{ kind: 'machines', class: null, machine: 'box', unreachable: 1, paused: 0, quarantined: 0 }, 'machine box is unreachable'],
  [{ kind: 'no-such-machines', class: 'big', machine: null }, 'no machine is of class big'],
  [{ kind: 'no-such-machines', class: null, machine: 'box' }, 'machine box is not in the pool any more'],
  [{ kind: 'disk-full' }, 'the disk is full'],
  [{ kind: 'stopping' }, 'the service is stopping'],
  [{ kind: 'next' }, 'starts next'],
]

test('every reason has its numbers', () => {
  for (const [waiting, text] of CASES) assert.equal(sentence(waiting, 16, now), text)
})

test('a reason of a later service is not an error', () => {
  assert.match(sentence({ kind: 'moon' } as unknown as Waiting, 16, now), /does not know/)
})

test('the nearest help comes first', () => {
  assert.match(remedy(gpus({ held: 1, outside: 1, paused: 1 })) ?? '', /Resume a paused GPU/)
  assert.match(remedy(gpus({ unreadable: 1, outside: 1 })) ?? '', /nexus doctor/)
  assert.match(remedy(noSuch({})) ?? '', /0 GPUs/)
  assert.equal(remedy(gpus({ held: 1 })), null)
  assert.match(remedy({ kind: 'machines', class: null, machine: 'box', unreachable: 0, paused: 0, quarantined: 1 }) ?? '', /Resume box/)
  assert.match(remedy({ kind: 'machines', class: null, machine: 'box', unreachable: 1, paused: 0, quarantined: 0 }) ?? '', /run elsewhere/)
  assert.match(remedy({ kind: 'no-such-machines', class: null, machine: 'box' }) ?? '', /nexus machine add box/)
})

test('what jobs wait for in a cluster is told once, with how many do', () => {
  const jobs = [
    slurm({ job: '12_1', reason: 'Resources', meaning: 'all is in use' }), slurm({ reason: 'Resources', meaning: 'all is in use' }),
    slurm({ reason: 'MaxHeadroom' }), slurm({ reason: 'None' }), { kind: 'held' }, null,
  ].map((waiting) => ({ waiting }) as Job)
  assert.deepEqual(waitingThere(jobs), [['Resources: all is in use', 2], ['MaxHeadroom', 1], ['waits in hpc', 1]])
})
