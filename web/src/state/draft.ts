// The form of a new job as typed, and the spec it means. Kept while one looks at other pages.
import type { JobRequest, JobSpec } from '../api/jobs'
import { duration, environment, extracts, gpuAmount, gpuList, memory, signalBefore, timeLimit, whole, words, Wrong } from '../text/values'
import { Store } from './store'

export interface Draft {
  command: string
  cwd: string
  name: string
  project: string
  tags: string
  gpus: string
  vram: string
  cpus: string
  ram: string
  model: string
  on: string
  class: string
  machine: string
  priority: string
  time: string
  signal: string
  grace: string
  retries: string
  retryOnTimeout: boolean
  after: string
  afterAny: string
  unique: boolean
  hold: boolean
  force: boolean
  noTty: boolean
  copies: string
  env: string
  conda: string
  venv: string
  gpuArg: string
  out: string
  results: string
  extract: string
}

export const EMPTY: Draft = {
  command: '', cwd: '', name: '', project: '', tags: '', gpus: '', vram: '', cpus: '', ram: '', model: '', on: '', class: '', machine: '', priority: '',
  time: '', signal: '', grace: '', retries: '', retryOnTimeout: false, after: '', afterAny: '', unique: false, hold: false,
  force: false, noTty: false, copies: '', env: '', conda: '', venv: '', gpuArg: '', out: '', results: '', extract: '',
}

export const draft = new Store<Draft>(EMPTY)

export type DraftErrors = Partial<Record<keyof Draft, string>>

export interface Meant {
  spec: JobSpec
  copies: number
  errors: DraftErrors
}

/** What the form means; `home` is the folder where none is given. */
export function meant(typed: Draft, home: string): Meant {
  const errors: DraftErrors = {}
  const read = <T>(field: keyof Draft, reader: (text: string) => T | Wrong): T | undefined => {
    const text = String(typed[field]).trim()
    if (text === '') return undefined
    const value = reader(text)
    if (!(value instanceof Wrong)) return value
    errors[field] = value.want
    return undefined
  }
  const text = (field: keyof Draft) => read(field, (given) => given)
  const request: JobRequest = compact({
    gpus: read('gpus', gpuAmount),
    vram_mib: read('vram', (given) => (given === 'auto' ? 'auto' as const : memory(given))),
    cpus: read('cpus', (given) => whole(given, 1)),
    ram_mib: read('ram', memory),
    gpu_model: text('model'),
    on: read('on', gpuList),
    // A machine is meant whatever its class.
    class: typed.machine === '' ? text('class') : undefined,
    machine: text('machine'),
    time_seconds: read('time', timeLimit),
    signal: read('signal', signalBefore),
    grace_seconds: read('grace', duration),
    force: typed.force || undefined,
  })
  const env = read('env', environment)
  const spec: JobSpec = {
    command: { shell: typed.command },
    cwd: text('cwd') ?? home,
    ...compact({
      name: text('name'),
      project: text('project'),
      tags: read('tags', words),
      priority: read('priority', (given) => whole(given, -Infinity)),
      retries: read('retries', (given) => whole(given)),
      retry_on: typed.retryOnTimeout ? ['timeout'] : undefined,
      after: read('after', words),
      after_any: read('afterAny', words),
      unique: typed.unique || undefined,
      hold: typed.hold || undefined,
      tty: typed.noTty ? false : undefined,
      conda: text('conda'),
      venv: text('venv'),
      gpu_arg: text('gpuArg'),
      out: text('out'),
      results: text('results'),
      extract: read('extract', extracts),
    }),
    request,
    ...(env === undefined ? {} : { env, env_given: Object.keys(env) }),
  }
  return { spec, copies: read('copies', (given) => whole(given, 1)) ?? 1, errors }
}

type Compact<T> = { [K in keyof T]?: Exclude<T[K], undefined> }

/** Without what was not said. */
function compact<T extends object>(given: T): Compact<T> {
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) as Compact<T>
}

/** The service's names of fields, where they are not the form's own. */
const FIELD_NAMES: Record<string, keyof Draft> = {
  'gpu-model': 'model', 'retry-on': 'retryOnTimeout', gpu_arg: 'gpuArg', 'gpu-arg': 'gpuArg', 'after-any': 'afterAny', 'a variable': 'env',
}

export function fieldOf(name: string | undefined): keyof Draft | null {
  if (name === undefined) return null
  if (name in EMPTY) return name as keyof Draft
  return FIELD_NAMES[name] ?? null
}
