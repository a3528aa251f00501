// Where a job is and what it asks for, in words; what keeps jobs off a GPU.
import type { Job, JobRequest, Run } from '../api/jobs'
import type { Gpu, GpuProcess } from '../api/service'
import { signalName } from './ended'
import { clock, limit } from './time'
import { counted, gpuWords, indexList, memory, memoryTyped } from './words'

type Placed = Pick<Job, 'gpus' | 'machine' | 'request' | 'attempt' | 'slurm'>

/** `GPU 0`, `GPUs 0-3 of box`, `CPU`; empty before it got a place. */
export function placeOf(job: Placed): string {
  const of = ofMachine(job.machine)
  if (job.gpus.length > 0) return `${gpuWords(job.gpus)}${of}`
  return job.request.gpus === 0 && job.attempt > 0 ? `CPU${of}` : ''
}

/** The same of one attempt. */
export const placeOfRun = (run: Pick<Run, 'gpus' | 'machine'>) => `${run.gpus.length > 0 ? gpuWords(run.gpus) : 'CPU'}${ofMachine(run.machine)}`

/** The same for a narrow column: `box:0-3`, `box:CPU`. Of the service's own host it is said in words. */
export function placeInRow(job: Placed): string {
  const place = placeOf(job)
  if (place === '' || isOwn(job.machine)) return place
  if (job.slurm) return `${job.machine}:${job.slurm.nodes === '' ? job.slurm.job : job.slurm.nodes}`
  return `${job.machine}:${job.gpus.length > 0 ? indexList(job.gpus) : 'CPU'}`
}

/** `GPU 0`, `GPU 0 of box` */
export const gpuName = (machine: string, index: number) => `GPU ${index}${ofMachine(machine)}`

const isOwn = (machine: string | null) => machine === null || machine === 'local'

/** ` of box`; of the service's own host it goes without saying. */
const ofMachine = (machine: string | null) => (isOwn(machine) ? '' : ` of ${machine}`)

/** Where a job may run, if it says so: `box`, `class big`. */
export function wanted(request: JobRequest): string | null {
  if (request.machine) return request.machine
  return request.class ? `class ${request.class}` : null
}

/** `2 GPUs, 8G of each, 4 CPUs, at most 4h` */
export function needs(request: JobRequest): string {
  const parts: string[] = []
  const amount = request.gpus ?? 1
  const model = request.gpu_model ? `${request.gpu_model} ` : ''
  if (amount === 0) parts.push('no GPU')
  else parts.push(Number.isInteger(amount) ? counted(amount, `${model}GPU`) : `${amount} ${model}GPU`)
  if (request.vram_mib === 'auto') parts.push('memory as earlier runs took')
  else if (request.vram_mib) parts.push(`${memory(request.vram_mib)} of GPU memory`)
  if (request.cpus != null) parts.push(counted(request.cpus, 'CPU'))
  if (request.ram_mib) parts.push(`${memoryTyped(request.ram_mib)} of memory`)
  if (request.on) parts.push(`on GPU ${indexList(request.on)}`)
  const where = wanted(request)
  if (where !== null) parts.push(request.machine ? `on ${where}` : `on a machine of ${where}`)
  if (request.driver) parts.push('the machine as a whole')
  if (request.time_seconds) parts.push(`at most ${limit(request.time_seconds)}`)
  if (request.signal) parts.push(`${signalName(request.signal.signal)} ${limit(request.signal.before_seconds)} before`)
  if (request.force) parts.push('paused GPUs too')
  return parts.join(', ')
}

/** `by 14:05` at the latest, `~14:05` about then; empty where nobody knows. */
export function expectedStart(job: Job, now: Date): string {
  if (!job.expected || job.waiting === null) return ''
  return sure(job.expected.start, job.expected.at_latest, now)
}

export function expectedEnd(job: Job, now: Date): string {
  return job.expected?.end ? sure(job.expected.end, job.expected.at_latest, now) : ''
}

function sure(at: string, atLatest: boolean, now: Date): string {
  return atLatest ? `by ${clock(at, now)}` : `~${clock(at, now)}`
}

/** What keeps jobs off it, beside a pause and the jobs on it; none where nothing does. */
export function obstacleWords(gpu: Gpu): string | null {
  const obstacle = gpu.obstacle
  if (obstacle === null) return null
  switch (obstacle.kind) {
    case 'in-use':
      return 'in use outside nexus'
    case 'locked':
      return obstacle.user === null ? 'held by another nexus' : `held by the nexus of ${obstacle.user}`
    case 'unreadable':
      return `cannot be read: ${obstacle.error}`
    case 'mig':
      return 'cut into MIG instances, which take no jobs'
    case 'left-out':
      return 'left out by gpus.use'
    default:
      return 'takes no job'
  }
}

/** One word for the whole of it. */
export function gpuState(gpu: Gpu): 'free' | 'busy' | 'paused' | 'outside' | 'unusable' {
  if (gpu.obstacle !== null && (gpu.obstacle.kind === 'in-use' || gpu.obstacle.kind === 'locked')) return 'outside'
  if (gpu.obstacle !== null) return 'unusable'
  if (gpu.paused) return 'paused'
  return gpu.jobs.length > 0 ? 'busy' : 'free'
}

/** `pid 4312 alice python, 642M` */
export function processWords(process: GpuProcess): string {
  const who = [process.user, process.name].filter((word) => word !== null).join(' ')
  const size = process.memory_mib === null ? '' : `, ${memory(process.memory_mib)}`
  return `pid ${process.pid}${who === '' ? '' : ` ${who}`}${size}`
}
