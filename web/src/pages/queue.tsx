// Waiting jobs in their order: why each waits, when it is expected to start, and its place to change.
import type { CSSProperties, JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { moveJob } from '../api/calls'
import type { Job } from '../api/jobs'
import { replaceQuery, route, go, jobLink } from '../route'
import { status } from '../state/status'
import { useStore } from '../state/store'
import { attempt } from '../state/toasts'
import { useSettled } from '../state/use'
import { useJobs } from '../state/useList'
import { DEEDS, menuFor, perform, type ActionName } from '../parts/actions'
import { Empty, JobId, ProblemBox, What } from '../parts/bits'
import { useDrag } from '../parts/drag'
import { Icon } from '../parts/icons'
import { Menu } from '../parts/menu'
import { usePhone } from '../parts/phone'
import { QueueSwitch } from '../parts/queue-switch'
import { Rows } from '../parts/rows'
import { Search } from '../parts/search'
import { expectedStart, needs, wanted } from '../text/place'
import { remedy, reasonOf } from '../text/waiting'
import { capital, counted, grouped, printable } from '../text/words'

const BULK: ActionName[] = ['first', 'hold', 'release', 'remove']

export function QueuePage(): JSX.Element {
  const { query } = useStore(route)
  const [text, setText] = useState(query.get('contains') ?? '')
  const [projectTyped, setProject] = useState(query.get('project') ?? '')
  const contains = useSettled(text, 250)
  const project = useSettled(projectTyped, 250)
  const phone = usePhone()
  const rowHeight = phone ? 86 : 40
  const pending = useStore(status)?.pending
  const { rows, more, loading, problem, look, list } = useJobs({ state: 'pending', contains, project, expected: true })
  const [chosen, setChosen] = useState<ReadonlySet<string>>(new Set())
  const anchor = useRef<string | null>(null)
  // Rows are drawn once and live on: what they call must see the list as it is then.
  const latest = useRef({ rows, more, list })
  latest.current = { rows, more, list }
  const placeOfJob = (id: string) => latest.current.rows.findIndex((row) => row.id === id)
  const scroller = useRef<HTMLDivElement | null>(null)

  useEffect(() => {
    replaceQuery(new URLSearchParams({ ...(contains === '' ? {} : { contains }), ...(project === '' ? {} : { project }) }))
  }, [contains, project])

  const move = (from: number, gap: number) => {
    const { rows, more, list } = latest.current
    const job = rows[from]
    if (!job || gap < 0) return
    const before = rows[gap]?.id ?? null
    // The end of what is read is not the end of the queue.
    if (before === null && more) return list?.freeze(false)
    const rest = rows.filter((other) => other !== job)
    const at = before === null ? rest.length : rest.findIndex((other) => other.id === before)
    list?.assume(() => [...rest.slice(0, at), job, ...rest.slice(at)])
    void attempt(() => moveJob(job.id, before)).then(() => list?.freeze(false))
  }

  const { drag, begin } = useDrag({
    rowHeight,
    count: rows.length,
    scroller,
    onStart: () => list?.freeze(true),
    onDrop: move,
    onCancel: () => list?.freeze(false),
  })

  const choose = (id: string, range: boolean) => {
    const index = placeOfJob(id)
    const from = range && anchor.current !== null ? placeOfJob(anchor.current) : index
    const ids = latest.current.rows.slice(Math.max(0, Math.min(from, index)), Math.max(from, index) + 1).map((row) => row.id)
    setChosen((before) => {
      const next = new Set(before)
      const add = range || !next.has(id)
      for (const one of ids) if (add) next.add(one); else next.delete(one)
      return next
    })
    anchor.current = id
  }
  const chosenJobs = rows.filter((job) => chosen.has(job.id))
  const searching = contains !== '' || project !== ''

  return (
    <div class="page fills">
      <div class="head">
        <h1>Queue</h1>
        <span class="faint">{pending !== undefined && grouped(pending)}</span>
        <span class="grow" />
        <QueueSwitch />
      </div>
      <div class="tools">
        <Search value={text} onInput={setText} label="Search the queue" placeholder="Id, name, command, tag…" focus={query.get('focus') === 'search'} />
        <input class="narrow" type="text" aria-label="Project" placeholder="Any project" value={projectTyped} onInput={(event) => setProject(event.currentTarget.value)} />
      </div>
      {chosenJobs.length > 0 && <ChosenBar jobs={chosenJobs} clear={() => setChosen(new Set())} />}
      {problem && <div class="tools"><ProblemBox problem={problem} /></div>}
      <div class="list queue-list">
        <div class="list-head" aria-hidden="true">
          <span /><span /><span class="number">Place</span><span>Id</span><span>Job</span><span>Waits because</span><span class="number">Starts</span><span class="number">Prio</span><span />
        </div>
        {rows.length === 0 && !loading && !more
          ? <NothingWaits searching={searching} />
          : (
            <Rows
              rows={rows}
              rowHeight={rowHeight}
              label="Waiting jobs"
              version={[drag, [...chosen], searching]}
              keep={drag?.from}
              onRange={look}
              scroller={scroller}
              note={more ? 'Reading more…' : undefined}
            >
              {(job, index, style) => (
                <QueueRow
                  key={job.id}
                  job={job}
                  style={drag?.from === index ? { ...style, top: `${drag.top}px` } : style}
                  dragged={drag?.from === index}
                  dropAbove={drag?.gap === index && drag.from !== index && drag.from !== index - 1}
                  chosen={chosen.has(job.id)}
                  movable={!searching}
                  onChoose={(range) => choose(job.id, range)}
                  onGrab={(event) => begin(event, placeOfJob(job.id))}
                  onStep={(by) => move(placeOfJob(job.id), placeOfJob(job.id) + (by < 0 ? -1 : 2))}
                />
              )}
            </Rows>
          )}
      </div>
    </div>
  )
}

function NothingWaits({ searching }: { searching: boolean }): JSX.Element {
  if (searching) return <Empty title="No waiting job fits that" />
  return <Empty title="Nothing waits"><span>Every job has started. <a class="link" href="#/submit">Queue another</a></span></Empty>
}

function ChosenBar({ jobs, clear }: { jobs: Job[]; clear: () => void }): JSX.Element {
  const does = async (name: ActionName, fit: Job[]) => {
    if (await perform(name, fit)) clear()
  }
  return (
    <div class="chosen-bar" role="toolbar" aria-label="Selected jobs">
      <strong>{counted(jobs.length, 'job')} selected</strong>
      {BULK.map((name) => {
        const fit = jobs.filter(DEEDS[name].fits)
        if (fit.length === 0) return null
        return (
          <button key={name} type="button" class={`button small ${DEEDS[name].danger ? 'danger' : ''}`} onClick={() => does(name, fit)}>
            <Icon name={DEEDS[name].icon} />{DEEDS[name].label}
          </button>
        )
      })}
      <button type="button" class="button small" onClick={clear}>Clear</button>
    </div>
  )
}

interface RowProps {
  job: Job
  style: CSSProperties
  dragged: boolean
  dropAbove: boolean
  chosen: boolean
  movable: boolean
  onChoose: (range: boolean) => void
  onGrab: (event: PointerEvent) => void
  onStep: (by: -1 | 1) => void
}

function QueueRow({ job, style, dragged, dropAbove, chosen, movable, onChoose, onGrab, onStep }: RowProps): JSX.Element {
  const now = new Date()
  const cpus = Math.max(0, ...(status.get()?.machines.map((machine) => machine.cpus) ?? []))
  const reason = capital(reasonOf(job, cpus, now))
  const help = job.waiting === null ? null : remedy(job.waiting)
  const where = wanted(job.request)
  const onKey = (event: KeyboardEvent) => {
    if (event.target !== event.currentTarget) return
    if (event.altKey && movable && (event.key === 'ArrowUp' || event.key === 'ArrowDown')) {
      onStep(event.key === 'ArrowUp' ? -1 : 1)
    } else if (event.key === 'Enter') go(jobLink(job.id))
    else if (event.key === 'x' || event.key === ' ') onChoose(event.shiftKey)
    else return
    event.preventDefault()
  }
  return (
    <div class={`row ${dragged ? 'dragged' : ''} ${chosen ? 'chosen' : ''}`} role="row" style={style} tabIndex={0} data-job={job.id} onKeyDown={onKey} aria-selected={chosen}>
      {dropAbove && <span class="drop-line" style={{ top: '-1px' }} />}
      <span role="cell" class="c-drag">
        {movable && (
          <span class="drag-handle" title="Drag to another place, or Alt with the arrow keys" onPointerDown={onGrab}><Icon name="grip" /></span>
        )}
      </span>
      <span role="cell" class="c-check">
        <input type="checkbox" checked={chosen} aria-label={`Select ${job.id}`} onClick={(event) => onChoose(event.shiftKey)} />
      </span>
      <span role="cell" class="c-pos number soft">{job.position !== null && grouped(job.position)}</span>
      <span role="cell" class="c-id"><JobId id={job.id} /></span>
      <span role="cell" class="c-what"><What job={job} />{where !== null && <span class="chip" title="Where it may run"><span class="cut">{printable(where)}</span></span>}</span>
      <span role="cell" class={`c-why cut ${job.state === 'held' ? 'warn-text' : 'soft'}`} title={[reason, help, `Asks for ${needs(job.request)}`].filter(Boolean).join('. ')}>{reason}</span>
      <span role="cell" class="c-start number soft">{expectedStart(job, now)}</span>
      <span role="cell" class="c-prio number soft">{job.priority !== 0 && job.priority}</span>
      <span role="cell" class="c-do end">
        {job.state === 'held' && (
          <button type="button" class="icon-button" aria-label={`Release ${job.id}`} title="Release" onClick={() => perform('release', [job])}><Icon name="play" /></button>
        )}
        <Menu label={`More for ${job.id}`} items={menuFor(job, ['first', 'hold', 'release', 'edit', 'remove'])} />
      </span>
    </div>
  )
}
