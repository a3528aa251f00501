// The service, its machines and their GPUs, as it tells of them.
import type { Job, Run, State } from './jobs'

export interface Service {
  version: string
  pid: number
  home: string
  host: string
  log_dir: string
  started_at: string
  queue_paused: boolean
  containment: string
  memory_limits?: boolean
  database: string
  simulated_gpus: number
  disk_free_bytes: number
  gpu_source: string | null
  gpu_driver: string | null
  gpu_error: string | null
  gpu_locks: string | null
  jobs_file_refused?: string[]
  user_home: string
  trouble?: Trouble
}

/** Why the database cannot be used: no job is taken or started. */
export interface Trouble {
  title: string
  why: string | null
  hint: string | null
}

export interface RecentFailure {
  id: string
  ended_at: string
  reason: string
  exit_code: number | null
  signal: number | null
  detail: string | null
  last_line: string | null
}

export interface Status {
  queue_paused: boolean
  pending: number
  held: number
  completed: number
  failed: number
  killed: number
  failures: RecentFailure[]
  machines: Machine[]
  active: Job[]
  disk_free_bytes: number
  trouble?: Trouble
  standstill?: Standstill
}

/** Jobs wait, and only a person can end the reasons. */
export interface Standstill {
  since: string
  jobs: number
  title: string
  reasons: { text: string; hint: string }[]
}

export interface Machine {
  name: string
  /** 0 until it was reached. */
  cpus: number
  gpus: Gpu[]
  error: string | null
  /** Absent from the status where the service's own host is all there is. */
  pool?: InPool
}

export type MachineState = 'ready' | 'connecting' | 'unreachable' | 'setting-up' | 'not-set-up' | 'paused' | 'quarantined' | 'leaving'

/** How a machine of the pool stands. */
export interface InPool {
  state: MachineState
  detail: string | null
  hint: string | null
  class: string | null
  /** Null for the service's own host. */
  address: string | null
  hostname: string | null
  ram_mib: number | null
  home: string | null
  round_trip_ms: number | null
  since: string | null
  again_at: string | null
  added_at: string | null
  jobs: string[]
  /** What is known of a cluster. */
  slurm?: InSlurm | null
}

export interface InSlurm {
  version: string | null
  partitions: { name: string; nodes: number; usable: number; gpus: { kind: string; per_node: number; total: number }[] }[]
  submitted: number
  running: number
}

export type MachineAction = 'pause' | 'resume' | 'mv' | 'rm'

export interface GpuShare {
  job: string
  part: number | null
  vram_mib: number | null
}

export interface GpuProcess {
  pid: number
  user: string | null
  name: string | null
  memory_mib: number | null
  graphics: boolean
  job: string | null
  foreign: boolean
}

export type Obstacle =
  | { kind: 'in-use'; pids: number[] }
  | { kind: 'locked'; user: string | null; pid: number | null }
  | { kind: 'unreadable'; error: string }
  | { kind: 'mig' }
  | { kind: 'left-out' }

export interface Gpu {
  index: number
  uuid: string
  name: string
  memory_mib: number
  simulated: boolean
  jobs: string[]
  shares?: GpuShare[]
  paused: boolean
  used_mib: number | null
  load_percent: number | null
  temperature_c: number | null
  power_w: number | null
  processes: GpuProcess[]
  obstacle: Obstacle | null
}

/** The facts behind one answer to "why". */
export interface Why extends Job {
  runs: Run[]
  holders: Job[]
  machines: Machine[]
  pending: number
  last_lines: string[]
  cwd_exists: boolean
  disk_free_bytes: number
  failed_by: string | null
  results_error?: string
}

export interface GpuReading {
  index: number
  load_percent: number | null
  used_mib: number | null
  temperature_c: number | null
  power_w: number | null
}

export type Event =
  | { kind: 'job'; id: string; state: State }
  | { kind: 'queue'; paused: boolean }
  | { kind: 'machine'; name: string }
  | { kind: 'missed' }
  | { kind: 'stopping' }
  | { kind: 'readings'; machine: string; at: number; gpus: GpuReading[] }

export interface GpuPast {
  machine: string
  index: number
  points: [number, number | null, number | null][]
}

export interface Tag {
  tag: string
  live: number
  ended: number
}
