// One function for each thing the page asks of the service.
import { get, getPage, post, type Page } from './http'
import type { Action, Command, Job, JobDetail, JobSpec, Submitted } from './jobs'
import type { Gpu, GpuPast, Machine, MachineAction, Service, Status, Tag, Why } from './service'
import type { ImportReport, ImportText, NewSweep, Sweep, SweepPreview, SweepQueued } from './sweeps'

/** Rows of one page of a list. */
export const PAGE_ROWS = 200

export interface JobFilter {
  state: string
  contains?: string
  project?: string
  tag?: string
  sweep?: string
  expected?: boolean
}

export const readService = () => get<Service>('/v1/service')
export const readStatus = () => get<Status>('/v1/status')
export const readPast = () => get<GpuPast[]>('/v1/gpus/readings')
export const readMachines = () => get<Machine[]>('/v1/machines')
export const readTags = () => get<Tag[]>('/v1/tags')

export const readJob = (id: string) => get<JobDetail>(`/v1/jobs/${id}`)
export const readWhy = (id: string) => get<Why>(`/v1/jobs/${id}/why`)

/** Only what is given: an empty field is no filter. */
function given(filter: JobFilter): Record<string, string | boolean | undefined> {
  const entries = Object.entries(filter).map(([name, value]) => [name, value === '' ? undefined : value] as const)
  return Object.fromEntries(entries)
}

export function readJobs(filter: JobFilter, cursor: string, limit = PAGE_ROWS, signal?: AbortSignal): Promise<Page<Job>> {
  return getPage<Job>('/v1/jobs', { ...given(filter), cursor, limit }, signal)
}

/** Jobs that start, run or copy: few enough to come at once. */
export const readActive = () => get<Job[]>('/v1/jobs', { state: 'starting,running,copying', expected: true })

export const act = (action: Action, ids: string[], skipUnfit = ids.length > 1) =>
  post<Job[]>(`/v1/jobs/${action}`, { ids, skip_unfit: skipUnfit })

export const rerun = (ids: string[], resume = false) => post<Submitted>('/v1/jobs/rerun', { ids, resume })

export const moveJob = (id: string, before: string | null) => post<Job>(`/v1/jobs/${id}/move`, { before })

export interface JobEdit {
  options: Record<string, string>
  command?: Command
}

export const editJob = (id: string, edit: JobEdit) => post<unknown>(`/v1/jobs/${id}/edit`, edit)

export const submit = (specs: JobSpec[], copies: number) =>
  post<Submitted>('/v1/jobs', specs, { env: 'service', copies: copies > 1 ? copies : undefined })

export const tryOut = (spec: JobSpec, signal: AbortSignal) =>
  post<Submitted>('/v1/jobs', [spec], { env: 'service', dry_run: true, expected: true }, signal)

export const copyResults = (id: string, to: string | null) => post<unknown>(`/v1/jobs/${id}/results`, { to })

export const setQueuePaused = (paused: boolean) => post<unknown>(`/v1/queue/${paused ? 'pause' : 'resume'}`)

export const setGpuPaused = (machine: string, gpu: number, paused: boolean) =>
  post<Gpu[]>(`/v1/gpus/${paused ? 'pause' : 'resume'}`, { machine, gpus: [gpu] })

export const actOnMachine = (action: MachineAction, name: string, more: { class?: string; drain?: boolean; kill?: boolean } = {}) =>
  post<Machine[]>(`/v1/machines/${action}`, { machines: [name], ...more })

export const readSweeps = () => get<Sweep[]>('/v1/sweeps')
export const readSweep = (name: string) => get<Sweep>(`/v1/sweeps/${encodeURIComponent(name)}`)

export function readSweepJobs(name: string, cursor: string, limit = PAGE_ROWS): Promise<Page<Job>> {
  return getPage<Job>(`/v1/sweeps/${encodeURIComponent(name)}/jobs`, { cursor, limit })
}

export const submitSweep = (sweep: NewSweep) => post<SweepQueued>('/v1/sweeps', sweep, { env: 'service' })

export const trySweep = (sweep: NewSweep, signal: AbortSignal) =>
  post<SweepPreview>('/v1/sweeps', sweep, { env: 'service', dry_run: true }, signal)

export const importText = (text: ImportText, signal?: AbortSignal) =>
  post<ImportReport>('/v1/import/text', text, {}, signal)
