// Sweeps and batches, as the service takes them and tells of them.
import type { JobSpec, Note, State } from './jobs'
import type { ProblemBody } from './http'

export interface Axis {
  name: string
  values: string
}

export interface Plan {
  axes?: Axis[]
  zip?: boolean
  where?: string
  random?: { count: number; seed: number }
}

export interface NewSweep {
  name?: string
  spec: JobSpec
  plan: Plan
  copies?: number
  max_running?: number
  stop_after?: number
}

export interface SweepStates {
  held: number
  queued: number
  running: number
  copying: number
  completed: number
  failed: number
  killed: number
}

export interface Sweep {
  name: string
  project: string | null
  command: string
  params: string[]
  extract: string[]
  plan: Plan
  copies: number
  jobs: number
  states: SweepStates
  max_running: number | null
  stop_after: number
  stopped: string | null
  submitted_at: string
  expected_end: string | null
}

export interface SweepPreview {
  jobs: number
  params: string[]
  first: { params: Record<string, string>; command: string }[]
  notes?: Note[]
}

export interface SweepQueued {
  sweep: Sweep
  ids: string[]
  notes?: Note[]
}

export type ImportFormat = 'lines' | 'csv' | 'jsonl' | 'esy'

export interface ImportText {
  text: string
  format: ImportFormat | null
  cwd: string
  again: boolean
  dry_run: boolean
}

export interface Change {
  what: string
  from: string
  to: string
}

export type Taken = { line: number } & (
  | { fate: 'queued'; id: string }
  | { fate: 'planned'; spec: JobSpec }
  | { fate: 'changed'; id: string; changes: Change[] }
  | { fate: 'known'; id: string; state: State; differs?: Change[] }
  | { fate: 'repeated'; of: number; changes?: Change[] }
  | { fate: 'refused'; error: string }
)

export interface LineError {
  line: number
  error: string
}

export interface ImportReport {
  file: string
  format: string | null
  entries: Taken[]
  refused: LineError[]
  doubtful: LineError[]
  notes: Note[]
  stopped: ProblemBody | null
}
