// Ended jobs, newest first: searched, filtered, run again, forgotten.
import type { CSSProperties, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { readSweeps, readTags } from '../api/calls'
import type { Job } from '../api/jobs'
import { go, jobLink, replaceQuery, route } from '../route'
import { useStore } from '../state/store'
import { useRead, useSettled } from '../state/use'
import { useJobs } from '../state/useList'
import { menuFor, perform } from '../parts/actions'
import { Chips, Clock, Empty, JobId, ProblemBox, StateWord, What } from '../parts/bits'
import { Icon } from '../parts/icons'
import { Menu } from '../parts/menu'
import { usePhone } from '../parts/phone'
import { Rows } from '../parts/rows'
import { Search } from '../parts/search'
import { placeInRow, placeOf } from '../text/place'
import { span } from '../text/time'

const STATES = ['completed', 'failed', 'killed'] as const
const FILTERS = ['state', 'project', 'tag', 'sweep', 'contains'] as const

type Filters = Record<(typeof FILTERS)[number], string>

function fromQuery(query: URLSearchParams): Filters {
  return {
    state: query.get('state') ?? '',
    project: query.get('project') ?? '',
    tag: query.get('tag') ?? '',
    sweep: query.get('sweep') ?? '',
    contains: query.get('contains') ?? '',
  }
}

export function HistoryPage(): JSX.Element {
  const here = useStore(route)
  const [filters, setFilters] = useState(() => fromQuery(here.query))
  const settled = useSettled(filters, 250)
  const phone = usePhone()
  const { data: tags } = useRead('tags', readTags, () => false)
  const { data: sweeps } = useRead('sweeps', readSweeps, () => false)
  const { rows, more, loading, problem, look } = useJobs({ ...settled, state: settled.state === '' ? 'ended' : settled.state })

  // A link to this page with other filters, while it is shown.
  useEffect(() => {
    const asked = fromQuery(here.query)
    if (here.path[0] === 'history' && FILTERS.some((name) => asked[name] !== settled[name])) setFilters(asked)
  }, [here])
  useEffect(() => {
    replaceQuery(new URLSearchParams(FILTERS.filter((name) => settled[name] !== '').map((name) => [name, settled[name]])))
  }, [settled])

  const set = (name: keyof Filters) => (value: string) => setFilters((before) => ({ ...before, [name]: value }))
  const filtered = FILTERS.some((name) => filters[name] !== '')
  return (
    <div class="page fills">
      <div class="head"><h1>History</h1></div>
      <div class="tools">
        <Search value={filters.contains} onInput={set('contains')} label="Search ended jobs" placeholder="Id, name, command, tag…" focus={here.query.get('focus') === 'search'} />
        <Choice label="State" all="Any state" value={filters.state} values={[...STATES]} onChange={set('state')} />
        <Choice label="Tag" all="Any tag" value={filters.tag} values={(tags ?? []).map((tag) => tag.tag)} onChange={set('tag')} />
        <Choice label="Sweep" all="Any sweep" value={filters.sweep} values={(sweeps ?? []).map((sweep) => sweep.name)} onChange={set('sweep')} />
        <input class="narrow" type="text" aria-label="Project" placeholder="Any project" value={filters.project} onInput={(event) => set('project')(event.currentTarget.value)} />
        {filtered && <button type="button" class="button" onClick={() => setFilters(fromQuery(new URLSearchParams()))}>Clear</button>}
      </div>
      {problem && <div class="tools"><ProblemBox problem={problem} /></div>}
      <div class="list history-list">
        <div class="list-head" aria-hidden="true">
          <span>State</span><span>Id</span><span>Job</span><span /><span>Where</span><span class="number">Runtime</span><span class="number">Ended</span><span />
        </div>
        {rows.length === 0 && !loading && !more
          ? <Empty title={filtered ? 'No ended job fits that' : 'No job has ended yet'} />
          : (
            <Rows rows={rows} rowHeight={phone ? 86 : 40} label="Ended jobs" onRange={look} note={more ? 'Reading more…' : undefined}>
              {(job, _index, style) => <HistoryRow key={job.id} job={job} style={style} />}
            </Rows>
          )}
      </div>
    </div>
  )
}

interface ChoiceProps {
  label: string
  all: string
  value: string
  values: string[]
  onChange: (value: string) => void
}

function Choice({ label, all, value, values, onChange }: ChoiceProps): JSX.Element {
  const known = value === '' || values.includes(value) ? values : [value, ...values]
  return (
    <select aria-label={label} value={value} onChange={(event) => onChange(event.currentTarget.value)}>
      <option value="">{all}</option>
      {known.map((one) => <option key={one} value={one}>{one}</option>)}
    </select>
  )
}

function HistoryRow({ job, style }: { job: Job; style: CSSProperties }): JSX.Element {
  const onKey = (event: KeyboardEvent) => {
    if (event.key === 'Enter' && event.target === event.currentTarget) go(jobLink(job.id))
  }
  return (
    <div class="row" role="row" style={style} tabIndex={0} onKeyDown={onKey}>
      <span role="cell" class="c-state"><StateWord job={job} withCause /></span>
      <span role="cell" class="c-id"><JobId id={job.id} /></span>
      <span role="cell" class="c-what"><What job={job} /></span>
      <span role="cell" class="c-tags"><Chips job={job} /></span>
      <span role="cell" class="c-where soft cut" title={placeOf(job)}>{placeInRow(job)}</span>
      <span role="cell" class="c-time number">{job.runtime_seconds !== null && job.attempt > 0 && span(job.runtime_seconds)}</span>
      <span role="cell" class="c-end number soft">{job.ended_at !== null && <Clock time={job.ended_at} />}</span>
      <span role="cell" class="c-do end">
        <button type="button" class="icon-button" aria-label={`Run ${job.id} again`} title="Run again" onClick={() => perform('rerun', [job])}><Icon name="again" /></button>
        <Menu label={`More for ${job.id}`} items={menuFor(job, ['resume', 'forget'])} />
      </span>
    </div>
  )
}
