// The form for a sweep, with the jobs it would come to.
import type { JSX } from 'preact'
import { submitSweep, trySweep } from '../api/calls'
import type { NewSweep, Plan } from '../api/sweeps'
import { go } from '../route'
import { draft, EMPTY, fieldOf, meant, type DraftErrors } from '../state/draft'
import { service } from '../state/status'
import { Store, useStore } from '../state/store'
import { tellDone } from '../state/toasts'
import { ProblemBox } from '../parts/bits'
import { CheckField, TextField } from '../parts/field'
import { Icon } from '../parts/icons'
import { JobFields } from '../parts/job-fields'
import { usePreview } from '../parts/preview'
import { useSending } from '../parts/sending'
import { whole, Wrong } from '../text/values'
import { capital, counted, printable } from '../text/words'
import { noteText } from '../text/notes'

interface SweepDraft {
  name: string
  axes: { name: string; values: string }[]
  where: string
  zip: boolean
  random: string
  seed: string
  maxRunning: string
  stopAfter: string
}

const EMPTY_SWEEP: SweepDraft = { name: '', axes: [{ name: '', values: '' }], where: '', zip: false, random: '', seed: '', maxRunning: '', stopAfter: '' }

const sweepDraft = new Store<SweepDraft>(EMPTY_SWEEP)

type SweepErrors = Partial<Record<keyof SweepDraft, string>>

function planOf(typed: SweepDraft, errors: SweepErrors): { plan: Plan; maxRunning: number | undefined; stopAfter: number | undefined } {
  const number = (field: 'random' | 'seed' | 'maxRunning' | 'stopAfter', least: number) => {
    const text = typed[field].trim()
    if (text === '') return undefined
    const value = whole(text, least)
    if (!(value instanceof Wrong)) return value
    errors[field] = value.want
    return undefined
  }
  const count = number('random', 1)
  const plan: Plan = {
    axes: typed.axes.filter((axis) => axis.name.trim() !== '').map((axis) => ({ name: axis.name.trim(), values: axis.values.trim() })),
    zip: typed.zip,
    ...(typed.where.trim() === '' ? {} : { where: typed.where.trim() }),
    ...(count === undefined ? {} : { random: { count, seed: number('seed', 0) ?? 0 } }),
  }
  return { plan, maxRunning: number('maxRunning', 1), stopAfter: number('stopAfter', 0) }
}

export function SweepTab(): JSX.Element {
  const job = useStore(draft)
  const typed = useStore(sweepDraft)
  const home = useStore(service)?.user_home ?? ''
  const { spec, copies, errors } = meant(job, home)
  const own: SweepErrors = {}
  const { plan, maxRunning, stopAfter } = planOf(typed, own)
  const { name: _name, ...unnamed } = spec
  const sweep: NewSweep = {
    spec: unnamed,
    plan,
    copies,
    ...(typed.name.trim() === '' ? {} : { name: typed.name.trim() }),
    ...(maxRunning === undefined ? {} : { max_running: maxRunning }),
    ...(stopAfter === undefined ? {} : { stop_after: stopAfter }),
  }
  const valid = Object.keys(errors).length === 0 && Object.keys(own).length === 0
  const complete = job.command.trim() !== '' && (plan.axes ?? []).length > 0 && (plan.axes ?? []).every((axis) => axis.values !== '')
  const { answer, problem, asking } = usePreview(valid && complete && spec.cwd !== '' ? JSON.stringify(sweep) : null, (signal) => trySweep(sweep, signal))
  const field = fieldOf(problem?.body.field)
  const shown: DraftErrors = field === null || !problem ? errors : { ...errors, [field]: capital(problem.body.want ?? '') }
  const set = (change: Partial<SweepDraft>) => sweepDraft.update((before) => ({ ...before, ...change }))

  const { sending, onSubmit } = useSending(async () => {
    const queued = await submitSweep(sweep)
    sweepDraft.set(EMPTY_SWEEP)
    draft.set({ ...EMPTY, cwd: job.cwd, project: job.project })
    tellDone(`Queued ${counted(queued.ids.length, 'job')} of sweep ${queued.sweep.name}`)
    go(`#/sweeps/${encodeURIComponent(queued.sweep.name)}`)
  })
  return (
    <form class="submit" onSubmit={onSubmit}>
      <div class="form">
        <JobFields draft={job} set={(change) => draft.update((before) => ({ ...before, ...change }))} errors={shown} home={home} sweep>
          <Axes axes={typed.axes} set={(axes) => set({ axes })} />
          <div class="form-row">
            <TextField label="Sweep name" value={typed.name} placeholder="made up" onInput={(name) => set({ name })} />
            <TextField label="At most at once" value={typed.maxRunning} wrong={own.maxRunning} placeholder="as many as fit" onInput={(value) => set({ maxRunning: value })} />
            <TextField label="Stop after failures" value={typed.stopAfter} wrong={own.stopAfter} placeholder="3" note="of the first jobs; 0 = never" onInput={(value) => set({ stopAfter: value })} />
          </div>
          <details>
            <summary>Only some of the points <span class="soft">where, zip, random</span></summary>
            <div>
              <TextField label="Only where" value={typed.where} placeholder="lr*seed<3" mono onInput={(where) => set({ where })} />
              <div class="form-row">
                <TextField label="So many by chance" value={typed.random} wrong={own.random} placeholder="all" onInput={(random) => set({ random })} />
                <TextField label="Seed of the chance" value={typed.seed} wrong={own.seed} placeholder="0" note="the same seed gives the same points" onInput={(seed) => set({ seed })} />
              </div>
              <CheckField label="Zip: the first values of all, then the second" value={typed.zip} onChange={(zip) => set({ zip })} />
            </div>
          </details>
        </JobFields>
        <div class="submit-actions">
          <button type="submit" class="button primary" disabled={!answer || sending}>{answer ? `Queue ${counted(answer.jobs, 'job')}` : 'Queue sweep'}</button>
          <button type="button" class="button" onClick={() => { sweepDraft.set(EMPTY_SWEEP); draft.set(EMPTY) }}>Clear</button>
        </div>
      </div>
      <aside class="panel preview" aria-label="Preview" aria-live="polite">
        <h2>{answer ? counted(answer.jobs, 'job') : 'What would be queued'}</h2>
        {!complete && <p class="soft">Give a command with {'{names}'} and the values of each.</p>}
        {asking && complete && !answer && !problem && <p class="faint">Asking…</p>}
        {problem && field === null && <ProblemBox problem={problem} />}
        {problem && field !== null && <p class="bad">{capital(problem.body.title)}.</p>}
        {answer?.notes?.map((note) => <p key={noteText(note)} class="soft">{noteText(note)}</p>)}
        {answer && (
          <ol>
            {answer.first.map((point, index) => <li key={index}><code>{printable(point.command)}</code></li>)}
            {answer.jobs > answer.first.length && <li class="faint">and {counted(answer.jobs - answer.first.length, 'more')}</li>}
          </ol>
        )}
      </aside>
    </form>
  )
}

function Axes({ axes, set }: { axes: SweepDraft['axes']; set: (axes: SweepDraft['axes']) => void }): JSX.Element {
  const change = (at: number, part: Partial<SweepDraft['axes'][number]>) => set(axes.map((axis, index) => (index === at ? { ...axis, ...part } : axis)))
  return (
    <fieldset class="field axes">
      <legend class="label">Parameters</legend>
      {axes.map((axis, index) => (
        <div key={index} class="axis">
          <input type="text" class="mono" aria-label={`Name of parameter ${index + 1}`} placeholder="lr" value={axis.name} spellcheck={false} onInput={(event) => change(index, { name: event.currentTarget.value })} />
          <input type="text" class="mono" aria-label={`Values of parameter ${index + 1}`} placeholder="0.1,0.01" value={axis.values} spellcheck={false} onInput={(event) => change(index, { values: event.currentTarget.value })} />
          <button type="button" class="icon-button" aria-label={`Remove parameter ${index + 1}`} disabled={axes.length === 1} onClick={() => set(axes.filter((_, at) => at !== index))}><Icon name="close" /></button>
        </div>
      ))}
      <span class="note">a,b,c · 1..5 · log:1e-4..1e-1:5</span>
      <span><button type="button" class="button small" onClick={() => set([...axes, { name: '', values: '' }])}><Icon name="plus" />Parameter</button></span>
    </fieldset>
  )
}
