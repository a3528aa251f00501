// The log of a job: which stream, which attempt, followed live, searched, downloaded.
import type { JSX } from 'preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { address } from '../api/http'
import { hasEnded, type JobDetail } from '../api/jobs'
import { linkTo } from '../api/session'
import { connection, resting } from '../state/live'
import { LogStream, type LogShown, type Stream } from '../state/log'
import { Store, useStore } from '../state/store'
import { attempt } from '../state/toasts'
import { useSettled } from '../state/use'
import { plainText } from '../text/ansi'
import { grouped } from '../text/words'
import { ProblemBox } from './bits'
import { Icon } from './icons'
import { LogLines } from './log-lines'
import { Search } from './search'

/** More than anybody reads; the rest comes when it is asked for. */
const TAIL = 5000
const NOTHING: LogShown = { lines: [], dropped: 0, problem: null, following: true }
/** Kept from job to job. */
const wrapLong = new Store(true)
const STREAMS: [Stream, string][] = [['both', 'Both'], ['stdout', 'stdout'], ['stderr', 'stderr']]

export function LogView({ job }: { job: JobDetail }): JSX.Element {
  const [stream, setStream] = useState<Stream>('both')
  const [attempt, setAttempt] = useState<number | null>(null)
  const [all, setAll] = useState(false)
  const [shown, setShown] = useState<LogShown>(NOTHING)
  const [stick, setStick] = useState(true)
  const wrap = useStore(wrapLong)
  const [find, setFind] = useState('')
  const wanted = useSettled(find, 150)
  const [at, setAt] = useState(0)
  const lost = useStore(connection) === 'lost'
  const there = !useStore(resting) && !lost
  const started = job.attempt > 0
  const newest = attempt ?? job.attempt

  useEffect(() => {
    if (!started || !there) return
    const question = { id: job.id, stream, attempt: newest, tail: all ? null : TAIL, follow: !hasEnded(job.state) && newest === job.attempt }
    const log = new LogStream(question, setShown)
    return () => log.stop()
    // The end of the job ends the stream by itself; only another question begins it anew.
  }, [job.id, stream, newest, all, started, there])

  const hits = useMemo(() => {
    if (wanted === '') return []
    const low = wanted.toLowerCase()
    return shown.lines.flatMap((line, index) => (plainText(line).toLowerCase().includes(low) ? [index] : []))
  }, [shown.lines, wanted])
  useEffect(() => setAt(0), [wanted])
  const step = (by: number) => {
    setStick(false)
    setAt((before) => (hits.length === 0 ? 0 : (before + by + hits.length) % hits.length))
  }

  if (!started) return <div class="log-empty faint">It has not started: there is no output yet.</div>
  const cut = !all && shown.lines.length + shown.dropped >= TAIL
  return (
    <section class="log" aria-label="Log">
      <div class="log-tools">
        <div class="segments" role="group" aria-label="Stream">
          {STREAMS.map(([value, label]) => <button key={value} type="button" aria-pressed={stream === value} onClick={() => setStream(value)}>{label}</button>)}
        </div>
        {job.attempt > 1 && (
          <select class="narrow" aria-label="Attempt" value={String(newest)} onChange={(event) => setAttempt(Number(event.currentTarget.value))}>
            {job.runs.map((run) => <option key={run.attempt} value={String(run.attempt)}>attempt {run.attempt}</option>)}
          </select>
        )}
        <div onKeyDown={(event) => event.key === 'Enter' && step(event.shiftKey ? -1 : 1)}>
          <Search value={find} onInput={setFind} label="Find in the log" placeholder="Find in the log" />
        </div>
        {wanted !== '' && <span class="soft" role="status">{hits.length === 0 ? 'nothing found' : `${at + 1} of ${grouped(hits.length)}`}</span>}
        <span class="grow" />
        {shown.following && <span class="live"><i />live</span>}
        <label class="check soft"><input type="checkbox" checked={wrap} onChange={() => wrapLong.set(!wrap)} />Wrap</label>
        {!stick && <button type="button" class="button small" onClick={() => setStick(true)}><Icon name="down" />To the end</button>}
        <button type="button" class="icon-button" onClick={() => void download(address(`/v1/jobs/${job.id}/log`, { stream, attempt: newest }), `${job.id}.${stream === 'both' ? '' : `${stream}.`}log`)} aria-label="Download the log" title="Download"><Icon name="down" /></button>
      </div>
      {cut && <div class="log-cut"><span>Only the last {grouped(TAIL)} lines are shown.</span><button type="button" class="button small" onClick={() => setAll(true)}>Show all</button></div>}
      {shown.dropped > 0 && <div class="log-cut"><span>{grouped(shown.dropped)} earlier lines are not shown: download the log to see them.</span></div>}
      {shown.problem && !shown.problem.unreachable && <ProblemBox problem={shown.problem} />}
      {shown.lines.length === 0 && shown.problem === null
        ? <div class="log-empty faint">{shown.following ? 'Nothing printed yet.' : 'It printed nothing.'}</div>
        : <LogLines lines={shown.lines} firstNumber={shown.dropped + 1} wrap={wrap} stick={stick && wanted === ''} onStick={(next) => wanted === '' && setStick(next)} find={wanted} current={hits[at] ?? null} />}
    </section>
  )
}

/** The browser fetches it by itself, so that a log of any size goes to disk: with a link that is good for a minute. */
function download(path: string, name: string): Promise<boolean> {
  return attempt(async () => {
    const link = document.createElement('a')
    link.href = await linkTo(path)
    link.download = name
    link.click()
  })
}
