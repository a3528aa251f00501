// Why a job waits: one sentence with the numbers, and what to do about it.
import type { GpusMissing, Job, Waiting } from '../api/jobs'
import { clock } from './time'
import { counted, gpuWords, indexList, memory, memoryTyped } from './words'

/** The reason of one waiting job; empty when it does not wait. `cpus` is how many the machine has. */
export function reasonOf(job: Pick<Job, 'state' | 'waiting'>, cpus: number, now: Date): string {
  if (job.waiting !== null) return sentence(job.waiting, cpus, now)
  return job.state === 'held' ? 'held' : ''
}

/** `needs 1 GPU: 2 held by jobs, 1 in use outside nexus, 1 paused` */
export function sentence(waiting: Waiting, cpus: number, now: Date): string {
  switch (waiting.kind) {
    case 'held':
      return 'held'
    case 'queue-paused':
      return waiting.after_failures === null || waiting.after_failures === undefined
        ? 'the queue is paused'
        : `the queue paused itself after ${counted(waiting.after_failures, 'failed job')} in a row`
    case 'sweep-stopped':
      return `held: the first ${counted(waiting.failures, 'job')} of its sweep failed, ${waiting.failure}`
    case 'sweep-full':
      return `${waiting.running} of its sweep run, ${waiting.limit} may at once`
    case 'disk-full':
      return 'the disk is full'
    case 'stopping':
      return 'the service is stopping'
    case 'retry':
      return `tried again at ${clock(waiting.until, now)}`
    case 'delayed':
      return `begins at ${clock(waiting.until, now)}`
    case 'after':
      return after(waiting.jobs, waiting.count)
    case 'no-such-gpus':
      return `needs ${gpus(waiting)}, there ${areSoMany(waiting.exist)}${never(waiting)}`
    case 'gpus':
      return `needs ${gpus(waiting)}: ${counts(waiting)}${never(waiting)}`
    case 'kept':
      return waiting.at
        ? `room is kept for ${waiting.job}, to start by ${clock(waiting.at, now)}`
        : `room is kept for ${waiting.job}, which waited long`
    case 'slurm':
      return inSlurm(waiting)
    case 'cluster-full':
      return `${counted(waiting.runs, 'job')} in the cluster, which is to have ${waiting.most} at most`
    case 'no-such-cpus':
      return `needs ${counted(waiting.need, 'CPU')}, there ${areSoMany(waiting.exist)}`
    case 'cpus':
      return `needs ${counted(waiting.need, 'CPU')}: ${waiting.free} of ${Math.max(cpus, waiting.free)} free`
    case 'no-such-ram':
      return `needs ${memoryTyped(waiting.need_mib)} of memory, there are ${memory(waiting.exist_mib)}`
    case 'ram':
      return `needs ${memoryTyped(waiting.need_mib)} of memory: ${memory(waiting.free_mib)} not given to jobs`
    case 'machines':
      return noneTakesJobs(waiting)
    case 'no-such-machines':
      return waiting.machine === null ? `no machine is of ${classWords(waiting.class)}` : `machine ${waiting.machine} is not in the pool any more`
    case 'next':
      return 'starts next'
    default:
      return 'waits for a reason this page does not know'
  }
}

/** `waits in hpc as 12_3, Resources: every GPU that could have it is in use` */
function inSlurm({ machine, job, state, reason, meaning }: Extract<Waiting, { kind: 'slurm' }>): string {
  const number = job === null ? '' : ` as ${job}`
  if (state === 'REFUSED') return `${machine} takes no more at the moment: ${reason}`
  if (state === 'UNCLEAR') return `${machine} was asked and did not answer: ${reason}`
  if (state === '') return `is given to ${machine}`
  if (state !== 'PENDING') return `is ${state} in ${machine}${number}`
  if (reason === '' || reason === 'None') return `waits in ${machine}${number}`
  return `waits in ${machine}${number}, ${reason}${meaning === null ? '' : `: ${meaning}`}`
}

/** What jobs wait for in the queue of a cluster, each with how many do. */
export function waitingThere(jobs: readonly Job[]): [string, number][] {
  const counts = new Map<string, number>()
  for (const { waiting } of jobs) {
    if (waiting?.kind !== 'slurm') continue
    const { reason, meaning } = waiting
    const why = reason === '' || reason === 'None' ? inSlurm({ ...waiting, job: null }) : meaning === null ? reason : `${reason}: ${meaning}`
    counts.set(why, (counts.get(why) ?? 0) + 1)
  }
  return [...counts]
}

/** What to do so that it need not wait; none where there is nothing but to wait. */
export function remedy(waiting: Waiting): string | null {
  switch (waiting.kind) {
    case 'held':
      return 'Release it to let it start.'
    case 'sweep-stopped':
      return 'Look at why the first ones failed, then release the sweep.'
    case 'queue-paused':
      return 'Resume the queue to let jobs start.'
    case 'disk-full':
      return 'Make room: forget ended jobs, or delete files. It goes on by itself then.'
    case 'no-such-gpus':
      if (waiting.left_out.length > 0) return `gpus.use of the configuration leaves out ${gpuWords(waiting.left_out)}.`
      return thereIsNone(waiting) ? 'Ask for 0 GPUs to run it on the CPU.' : 'As it is it never starts here: edit it to ask for less.'
    case 'no-such-cpus':
    case 'no-such-ram':
      return 'As it is it never starts here: edit it to ask for less.'
    case 'gpus':
      return gpusRemedy(waiting)
    case 'kept':
      return 'A time limit lets it start where it is gone in time; First puts it before that job.'
    case 'machines':
      return machinesRemedy(waiting)
    case 'no-such-machines':
      return waiting.machine === null
        ? 'Move a machine to that class on the Machines page, or edit the job.'
        : `nexus machine add ${waiting.machine} has it back; edit the job to let it run elsewhere.`
    case 'after':
      return 'It starts when those have completed. Edit it to let it start without.'
    default:
      return null
  }
}

function gpusRemedy(missing: GpusMissing): string | null {
  // The nearest help first: a pause is the user's own.
  if (missing.paused > 0) return 'Resume a paused GPU to let it start there.'
  if (missing.unreadable > 0) return 'A GPU cannot be read: nexus doctor tells why.'
  if (missing.outside > 0) return 'The overview shows who uses them; gpus.ignore lets some not count.'
  if (missing.busy > 0) return 'gpus.load_threshold sets how much load is too much to share.'
  if (missing.low_memory > 0 && missing.vram_mib === null) return 'Say how much memory it needs; gpus.mem_threshold sets how full is too full.'
  return null
}

type OfMachines = Extract<Waiting, { kind: 'machines' }>

/** `machine box is unreachable`, `no machine of class big takes jobs: 2 unreachable, 1 paused` */
function noneTakesJobs({ class: name, machine, unreachable, paused, quarantined }: OfMachines): string {
  const all: [number, string][] = [[unreachable, 'unreachable'], [paused, 'paused'], [quarantined, 'quarantined']]
  const said = all.filter(([count]) => count > 0)
  const first = said[0]
  if (machine !== null && first !== undefined) return `machine ${machine} is ${first[1]}`
  const counts = said.map(([count, word]) => `${count} ${word}`).join(', ')
  return `no machine of ${machine ?? classWords(name)} takes jobs${counts === '' ? '' : `: ${counts}`}`
}

const classWords = (name: string | null) => `class ${name ?? 'default'}`

function machinesRemedy({ machine, unreachable }: OfMachines): string {
  if (machine === null) return 'The Machines page tells why each takes none.'
  if (unreachable === 0) return `Resume ${machine} on the Machines page to let it take jobs again.`
  return 'It starts when the machine is reached; edit the job to let it run elsewhere.'
}

/** `comes after abc, abd and 3 more` */
function after(jobs: string[], count: number): string {
  const more = count - jobs.length
  return `comes after ${jobs.join(', ')}${more > 0 ? ` and ${more} more` : ''}`
}

/** `1 free, 2 held by jobs, 1 full (0.25 left)` */
function counts(missing: GpusMissing): string {
  const left = missing.most_free_mib === null ? '' : ` (${memory(missing.most_free_mib)} left)`
  // Where its part can be had it is the memory that goes with it that cannot.
  const byPart = missing.part !== null && missing.most_part !== null && missing.most_part < missing.part
  const parts: [number, string][] = [
    [missing.free, 'free'],
    [missing.held, 'held by jobs'],
    [missing.shared, 'shared by jobs'],
    [missing.full, `full${byPart ? ` (${missing.most_part} left)` : left}`],
    [missing.low_memory, `short of memory${left}`],
    [missing.busy, 'too busy to share'],
    [missing.outside, 'in use outside nexus'],
    [missing.paused, 'paused'],
    [missing.unreadable, 'unreadable'],
  ]
  const said = parts.filter(([count]) => count > 0).map(([count, what]) => `${count} ${what}`)
  return said.length === 0 ? 'none is free' : said.join(', ')
}

/** No GPU at all, where any would do. */
function thereIsNone(missing: GpusMissing): boolean {
  const kept = [missing.mig, missing.left_out, missing.other_model, missing.too_small]
  return missing.exist === 0 && missing.on === null && kept.every((list) => list.length === 0)
}

/** `2 GPUs`, `1 GPU of 0-2`, `0.5 GPU`, `8G of 1 A100 GPU` */
function gpus(missing: GpusMissing): string {
  const model = missing.model === null ? '' : `${missing.model.toUpperCase()} `
  const amount = missing.part === null ? counted(missing.need, `${model}GPU`) : `${missing.part} ${model}GPU`
  const vram = missing.vram_mib === null ? '' : `${memory(missing.vram_mib)} of `
  const among = missing.on === null ? '' : ` of ${indexList(missing.on)}`
  return `${vram}${amount}${among}`
}

function areSoMany(count: number): string {
  if (count === 0) return 'are none'
  return count === 1 ? 'is 1' : `are ${count}`
}

/** GPUs that are there and do not count: `; GPU 3 is in MIG mode` */
function never(missing: GpusMissing): string {
  const said = (list: number[], what: string) => {
    if (list.length === 0) return ''
    return list.length === 1 ? `; GPU ${list[0]} is ${what}` : `; GPUs ${indexList(list)} are ${what}`
  }
  return [
    said(missing.mig, 'in MIG mode'),
    said(missing.left_out, 'left out by gpus.use'),
    said(missing.other_model, 'of another model'),
    said(missing.too_small, 'too small'),
  ].join('')
}
