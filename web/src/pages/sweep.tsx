// One sweep: how far it is, each of its jobs with parameters and values, and a chart of them.
import type { JSX } from 'preact'
import { useMemo, useRef, useState } from 'preact/hooks'
import { act, readSweep, readSweepJobs } from '../api/calls'
import { hasEnded, isWaiting, type Job } from '../api/jobs'
import type { Sweep } from '../api/sweeps'
import { go, jobLink } from '../route'
import { useNow } from '../state/clock'
import { attempt } from '../state/toasts'
import { useRead } from '../state/use'
import { runAgain } from '../parts/actions'
import { Ago, CommandBox, JobId, ProblemBox, Runtime, StateWord } from '../parts/bits'
import { ask } from '../parts/dialog'
import { Icon } from '../parts/icons'
import { usePhone } from '../parts/phone'
import { Rows } from '../parts/rows'
import { Scatter } from '../parts/scatter'
import { SweepProgress, Tally } from './sweeps'
import { compareValues } from '../text/numbers'
import { clock } from '../text/time'
import { capital, counted, grouped, printable } from '../text/words'

/** All jobs of a sweep are read: the chart and the sorting need them. In pages, so that no answer is huge. */
const PAGE = 1000
/** And less often than other things, since they may be thousands. */
const ALL_JOBS_MS = 2000

async function readAll(name: string): Promise<Job[]> {
  const jobs: Job[] = []
  let cursor: string | null = ''
  while (cursor !== null) {
    const page: { rows: Job[]; next: string | null } = await readSweepJobs(name, cursor, PAGE)
    jobs.push(...page.rows)
    cursor = page.next
  }
  return jobs.filter((job) => job.replaced_by === null)
}

export function SweepPage({ name }: { name: string }): JSX.Element {
  const { data: sweep, problem } = useRead(`sweep ${name}`, () => readSweep(name), (event) => event.kind === 'job')
  const known = useRef(new Set<string>())
  const { data: jobs } = useRead(
    `sweep jobs ${name}`,
    () => readAll(name),
    // A job that is new may be one of its own that was repeated.
    (event) => event.kind === 'job' && (known.current.has(event.id) || event.state === 'queued'),
    ALL_JOBS_MS,
  )
  known.current = useMemo(() => new Set(jobs?.map((job) => job.id)), [jobs])
  if (sweep === null) return <div class="page scrolls">{problem ? <ProblemBox problem={problem} /> : <p class="faint">Reading…</p>}</div>
  return (
    <div class="page scrolls">
      <SweepHead sweep={sweep} jobs={jobs ?? []} />
      <div class="sweep-grid">
        {sweep.stopped !== null && <Stopped sweep={sweep} jobs={jobs ?? []} />}
        <div class="panel boxed">
          <SweepProgress states={sweep.states} jobs={sweep.jobs} />
          <SweepFacts sweep={sweep} />
        </div>
        {jobs && <Scatter sweep={sweep} jobs={jobs} />}
        {jobs && <JobTable sweep={sweep} jobs={jobs} />}
      </div>
    </div>
  )
}

function SweepHead({ sweep, jobs }: { sweep: Sweep; jobs: Job[] }): JSX.Element {
  const failed = jobs.filter((job) => job.state === 'failed')
  const alive = jobs.filter((job) => !hasEnded(job.state))
  const cancel = async () => {
    const running = alive.filter((job) => !isWaiting(job.state)).length
    const yes = await ask({
      title: `Cancel sweep ${sweep.name}?`,
      text: `${counted(running, 'running job')} will be killed and ${counted(alive.length - running, 'waiting job')} removed. What has ended stays.`,
      action: 'Cancel sweep',
    })
    if (yes) await attempt(() => act('cancel', alive.map((job) => job.id), true), `Cancelled sweep ${sweep.name}`)
  }
  return (
    <div class="head">
      <a class="icon-button" href="#/sweeps" aria-label="All sweeps"><Icon name="left" /></a>
      <h1>{sweep.name}</h1>
      <Tally states={sweep.states} />
      <span class="grow" />
      {failed.length > 0 && <button type="button" class="button" onClick={() => runAgain(failed.map((job) => job.id))}><Icon name="again" />Run {grouped(failed.length)} failed again</button>}
      {alive.length > 0 && <button type="button" class="button danger" onClick={cancel}><Icon name="stop" />Cancel</button>}
    </div>
  )
}

function Stopped({ sweep, jobs }: { sweep: Sweep; jobs: Job[] }): JSX.Element {
  const held = jobs.filter((job) => job.state === 'held').map((job) => job.id)
  return (
    <div class="problem-box" role="alert">
      <strong>The rest of this sweep is held</strong>
      <span>{capital(printable(sweep.stopped ?? ''))}</span>
      <span><button type="button" class="button small" onClick={() => attempt(() => act('release', held, true), `Released ${counted(held.length, 'job')}`)}><Icon name="play" />Release {counted(held.length, 'job')}</button></span>
    </div>
  )
}

function SweepFacts({ sweep }: { sweep: Sweep }): JSX.Element {
  const now = useNow()
  const ended = sweep.states.completed + sweep.states.failed + sweep.states.killed
  const { axes = [], where, zip, random } = sweep.plan
  return (
    <>
      <p class="soft" style={{ margin: '6px 0 12px' }}>
        {grouped(ended)} of {counted(sweep.jobs, 'job')} ended
        {sweep.expected_end !== null && `, the last about ${clock(sweep.expected_end, now)}`}
        . Queued <Ago time={sweep.submitted_at} />
        {sweep.max_running !== null && `, at most ${sweep.max_running} at once`}.
      </p>
      <CommandBox text={sweep.command} />
      {axes.length > 0 && (
        <p class="mono soft" style={{ marginTop: '8px', overflowWrap: 'anywhere' }}>
          {axes.map((axis) => `${axis.name}=${axis.values}`).join('  ')}
          {zip && '  --zip'}
          {where && `  --where ${printable(where)}`}
          {random && `  --random ${random.count} (seed ${random.seed})`}
        </p>
      )}
    </>
  )
}

interface Column {
  key: string
  title: string
  text: (job: Job) => string
  number: boolean
}

function columnsOf(sweep: Sweep): Column[] {
  return [
    ...sweep.params.map((name) => ({ key: `p.${name}`, title: name, text: (job: Job) => job.params?.[name] ?? '', number: true })),
    { key: 'runtime', title: 'Runtime', text: (job: Job) => (job.runtime_seconds === null ? '' : String(job.runtime_seconds)), number: true },
    ...sweep.extract.map((name) => ({ key: `x.${name}`, title: name, text: (job: Job) => job.extracted?.[name] ?? '', number: true })),
  ]
}

function JobTable({ sweep, jobs }: { sweep: Sweep; jobs: Job[] }): JSX.Element {
  const phone = usePhone()
  const columns = useMemo(() => columnsOf(sweep), [sweep.params.join(), sweep.extract.join()])
  const [sort, setSort] = useState<{ key: string; down: boolean } | null>(null)
  const sorted = useMemo(() => {
    if (sort === null) return jobs
    const text = sort.key === 'state' ? (job: Job) => job.state : (columns.find((one) => one.key === sort.key)?.text ?? (() => ''))
    const way = sort.down ? -1 : 1
    return [...jobs].sort((a, b) => {
      const [x, y] = [text(a), text(b)]
      // What has no value stands last, whichever way it is sorted.
      return x === '' || y === '' ? compareValues(x, y) : way * compareValues(x, y)
    })
  }, [jobs, sort, columns])
  // On a phone the values stand below, in one line; the head stays for sorting.
  const grid = { gridTemplateColumns: phone ? 'minmax(0, 1fr) max-content' : `116px 52px ${columns.map(() => 'minmax(0, 1fr)').join(' ')}` }
  const head = (key: string, title: string, number: boolean) => (
    <span key={key} class={number ? 'number' : ''}>
      <button type="button" aria-label={`Sort by ${title}`} onClick={() => setSort((before) => (before?.key === key ? (before.down ? null : { key, down: true }) : { key, down: false }))}>
        <span class="cut">{title}</span>{sort?.key === key && (sort.down ? '↓' : '↑')}
      </button>
    </span>
  )
  return (
    <section class="panel sweep-table" aria-label="Jobs of the sweep">
      <div class="list">
        <div class="list-head" style={phone ? { display: 'flex', gap: '14px', overflowX: 'auto' } : { ...grid, display: 'grid' }}>
          {head('state', 'State', false)}
          {!phone && <span>Id</span>}
          {columns.map((column) => head(column.key, column.title, column.number))}
        </div>
        <Rows rows={sorted} rowHeight={phone ? 58 : 34} label="Jobs of the sweep">
          {(job, _index, style) => (
            <div key={job.id} class="row" role="row" style={{ ...style, ...grid }} tabIndex={0} onKeyDown={(event) => event.key === 'Enter' && event.target === event.currentTarget && go(jobLink(job.id))}>
              <span role="cell"><StateWord job={job} /></span>
              <span role="cell"><JobId id={job.id} /></span>
              {phone && <span role="cell" class="c-values soft cut">{columns.filter((column) => column.key !== 'runtime' && column.text(job) !== '').map((column) => `${column.title} ${printable(column.text(job))}`).join(', ')}</span>}
              {!phone && columns.map((column) => (
                <span key={column.key} role="cell" class="number cut">{column.key === 'runtime' ? <Runtime job={job} /> : printable(column.text(job))}</span>
              ))}
            </div>
          )}
        </Rows>
      </div>
    </section>
  )
}
