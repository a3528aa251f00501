// Jobs as the service tells of them and takes them. The names are those of its JSON.

export type State = 'held' | 'queued' | 'starting' | 'running' | 'copying' | 'completed' | 'failed' | 'killed'

export const ENDED: readonly State[] = ['completed', 'failed', 'killed']

export function hasEnded(state: State): boolean {
  return ENDED.includes(state)
}

export function isWaiting(state: State): boolean {
  return state === 'held' || state === 'queued'
}

export type Command = { shell: string } | { argv: string[] }

export interface SignalBefore {
  signal: number
  before_seconds: number
}

export interface JobRequest {
  gpus?: number | null
  vram_mib?: number | 'auto' | null
  cpus?: number | null
  ram_mib?: number | null
  on?: number[] | null
  gpu_model?: string | null
  time_seconds?: number | null
  signal?: SignalBefore | null
  grace_seconds?: number | null
  force?: boolean
  class?: string | null
  machine?: string | null
  /** A machine is held for it as a whole, while it runs on the service's host. */
  driver?: boolean
}

/** What is asked of GPUs and what stands against it. */
export interface GpusMissing {
  need: number
  part: number | null
  vram_mib: number | null
  on: number[] | null
  model: string | null
  exist: number
  free: number
  held: number
  shared: number
  full: number
  low_memory: number
  busy: number
  outside: number
  paused: number
  unreadable: number
  most_part: number | null
  most_free_mib: number | null
  mig: number[]
  left_out: number[]
  other_model: number[]
  too_small: number[]
}

export type Waiting =
  | { kind: 'held' }
  | { kind: 'queue-paused'; after_failures: number | null }
  | { kind: 'sweep-stopped'; failures: number; failure: string }
  | { kind: 'sweep-full'; running: number; limit: number }
  | { kind: 'disk-full' }
  | { kind: 'stopping' }
  | { kind: 'retry'; until: string }
  | { kind: 'delayed'; until: string }
  | { kind: 'after'; jobs: string[]; count: number }
  | ({ kind: 'no-such-gpus' } & GpusMissing)
  | ({ kind: 'gpus' } & GpusMissing)
  | { kind: 'kept'; job: string; at?: string | null }
  | { kind: 'slurm'; machine: string; job: string | null; state: string; reason: string; meaning: string | null; start: string | null; nodes: string }
  | { kind: 'cluster-full'; runs: number; most: number }
  | { kind: 'no-such-cpus'; need: number; exist: number }
  | { kind: 'cpus'; need: number; free: number }
  | { kind: 'no-such-ram'; need_mib: number; exist_mib: number }
  | { kind: 'ram'; need_mib: number; free_mib: number }
  | { kind: 'machines'; class: string | null; machine: string | null; unreachable: number; paused: number; quarantined: number }
  | { kind: 'no-such-machines'; class: string | null; machine: string | null }
  | { kind: 'next' }

export interface Expected {
  start: string
  end: string | null
  at_latest: boolean
}

export interface Job {
  id: string
  name: string | null
  project: string | null
  command: string
  argv: string[] | null
  state: State
  reason: string | null
  detail: string | null
  waiting: Waiting | null
  /** What a cluster calls it, while it has it. */
  slurm?: { job: string; nodes: string } | null
  exit_code: number | null
  signal: number | null
  request: JobRequest
  machine: string | null
  class: string | null
  gpus: number[]
  pid: number | null
  priority: number
  attempt: number
  retries: number
  tags: string[]
  sweep: string | null
  params: Record<string, string> | null
  submitted_at: string
  started_at: string | null
  ended_at: string | null
  runtime_seconds: number | null
  cwd: string
  log_dir: string
  stdout_path: string
  stderr_path: string
  results: string | null
  results_state: string
  results_named: string[]
  extracted: Record<string, string> | null
  links: string[]
  simulated: boolean
  position: number | null
  rerun_of: string | null
  replaced_by: string | null
  expected?: Expected
}

export interface RunOutcome {
  word: string
  exit_code: number | null
  signal: number | null
  error: string | null
}

export interface Run {
  attempt: number
  machine: string
  gpus: number[]
  pid: number | null
  planned_at: string
  started_at: string | null
  ended_at: string | null
  outcome: RunOutcome | null
  log_dir: string
  part: number | null
  vram_mib: number | null
  peak_vram_mib: number | null
  out: string | null
}

export interface Extract {
  name: string
  pattern: string
}

export interface ResultsCopy {
  to: string
  done_bytes: number
  total_bytes: number
  trouble: string | null
  ended: boolean
  error: string | null
}

export interface JobDetail extends Job {
  runs: Run[]
  conda?: string
  venv?: string
  gpu_arg?: string
  env_names: string[]
  checkpoint_dir?: string
  by_rule: string | null
  after: string[]
  after_any: string[]
  retry_on: string[]
  unique: boolean
  extract?: Extract[]
  results_folder?: string
  results_error?: string
  results_copy?: ResultsCopy
}

/** What a submission asks for; all but the command and the folder may be left out. */
export interface JobSpec {
  command: Command
  cwd: string
  env?: Record<string, string>
  env_given?: string[]
  name?: string
  project?: string
  tags?: string[]
  request?: JobRequest
  priority?: number
  retries?: number
  retry_on?: string[]
  after?: string[]
  after_any?: string[]
  unique?: boolean
  hold?: boolean
  tty?: boolean
  out?: string
  conda?: string
  venv?: string
  gpu_arg?: string
  results?: string
  extract?: Extract[]
}

/** Ids of jobs: the first of them, and how many more there are. */
export interface Few {
  first: string[]
  more?: number
}

export type Note =
  | { note: 'rounded-up'; rule: string; asked: number; gpus: number }
  | { note: 'secrets-dropped' | 'secrets-not-exported'; names: string[]; jobs: Few }
  | { note: 'other' }

export interface Submitted {
  jobs: Job[]
  notes?: Note[]
}

export type Action = 'kill' | 'remove' | 'cancel' | 'hold' | 'release' | 'first' | 'forget'
