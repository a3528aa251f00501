// The answer to "why": what a waiting job needs and who holds it, or how an ended one came to its end.
import type { JSX } from 'preact'
import { readWhy } from '../api/calls'
import { isWaiting, type Job, type JobDetail } from '../api/jobs'
import type { Why } from '../api/service'
import { useNow } from '../state/clock'
import { useRead } from '../state/use'
import { cause, causeOf, meaning } from '../text/ended'
import { isClosed, isMeant } from '../text/machines'
import { expectedStart, gpuName, obstacleWords, placeOf, processWords } from '../text/place'
import { clock, runtime, span } from '../text/time'
import { reasonOf, remedy } from '../text/waiting'
import { capital, firstLine, printable } from '../text/words'
import { JobId } from './bits'
import { Standing } from './machine-bits'

const HOLDERS_NAMED = 6

export function WhyBox({ job }: { job: JobDetail }): JSX.Element | null {
  // Read again when the job changes, and, while it waits, when anything does.
  // One that was given to a cluster may wait there.
  const waits = isWaiting(job.state) || (job.state === 'starting' && job.waiting !== null)
  const { data } = useRead(`why ${job.id} ${job.state} ${job.attempt}`, () => readWhy(job.id), (event) => waits && event.kind !== 'readings')
  if (data === null) return null
  if (waits) return <WhyWaiting why={data} />
  return job.state === 'failed' || job.state === 'killed' ? <WhyEnded why={data} /> : null
}

function WhyWaiting({ why }: { why: Why }): JSX.Element {
  const now = useNow()
  const cpus = Math.max(0, ...why.machines.map((machine) => machine.cpus))
  const reason = reasonOf(why, cpus, now)
  const start = expectedStart(why, now)
  const help = why.waiting === null ? null : remedy(why.waiting)
  const before = why.runs.at(-1)
  return (
    <section class={`why ${why.state}`} aria-label="Why it waits">
      <strong>{capital(reason === '' ? 'queued' : reason)}</strong>
      {(why.position !== null || start !== '') && (
        <span class="soft">{why.position !== null && `Place ${why.position} of ${Math.max(why.pending, why.position)}`}{start !== '' && `${why.position === null ? 'Expected' : ', expected'} to start ${start}`}</span>
      )}
      {why.holders.length > 0 && (
        <ul>
          {why.holders.slice(0, HOLDERS_NAMED).map((job) => <li key={job.id}>{holder(job, now)}</li>)}
          {why.holders.length > HOLDERS_NAMED && <li class="soft">and {why.holders.length - HOLDERS_NAMED} more</li>}
        </ul>
      )}
      {why.waiting?.kind === 'gpus' && <NotFree why={why} />}
      {why.waiting?.kind === 'machines' && <NotReady why={why} />}
      {before?.outcome && (
        <span class="soft">Attempt {before.attempt} failed: {cause(before.outcome.word, before.outcome.exit_code, before.outcome.signal)}</span>
      )}
      {help !== null && <span>{help}</span>}
    </section>
  )
}

function holder(job: Job, now: Date): JSX.Element {
  return <><JobId id={job.id} /> {job.gpus.length > 0 ? `has ${placeOf(job)}` : 'runs'} for {runtime(job, now)}<span class="soft">: {firstLine(job.name ?? job.command)}</span></>
}

function NotFree({ why }: { why: Why }): JSX.Element | null {
  const all = why.machines.flatMap((machine) => machine.gpus.map((gpu) => ({ machine, gpu })))
  const lines = all.filter(({ gpu }) => gpu.jobs.length === 0 && (gpu.paused || gpu.obstacle !== null))
  if (lines.length === 0) return null
  return (
    <ul>
      {lines.map(({ machine, gpu }) => {
        const foreign = gpu.processes.filter((process) => process.foreign).map(processWords).join('; ')
        const words = [gpu.paused ? 'paused' : null, obstacleWords(gpu)].filter((word) => word !== null).join(', ')
        return <li key={`${machine.name} ${gpu.uuid}`} class="soft">{gpuName(machine.name, gpu.index)}: {printable(words)}{foreign !== '' && ` (${printable(foreign)})`}</li>
      })}
    </ul>
  )
}

/** The machines it may run on, and why each takes no jobs. */
function NotReady({ why }: { why: Why }): JSX.Element {
  const lines = why.machines.filter((machine) => isMeant(machine, why.request) && isClosed(machine))
  return <>{lines.map((machine) => <Standing key={machine.name} machine={machine} named={!why.request.machine} />)}</>
}

function WhyEnded({ why }: { why: Why }): JSX.Element {
  const now = useNow()
  const place = placeOf(why)
  const told = meaning(why, why.cwd_exists)
  return (
    <section class={`why ${why.state}`} aria-label="How it ended">
      <strong>
        {capital(why.state)} ({causeOf(why)}){place !== '' && ` on ${place}`}
        {why.ended_at !== null && ` at ${clock(why.ended_at, now)}`}
        {why.attempt > 0 && why.runtime_seconds !== null && ` after ${span(why.runtime_seconds)}`}
      </strong>
      {told.map((line) => <span key={line}>{capital(printable(line))}</span>)}
      {why.attempt > 1 && <span class="soft">Tried {why.attempt} times.</span>}
      {why.failed_by !== null && <span>It was to come after <JobId id={why.failed_by} />, which did not complete.</span>}
    </section>
  )
}
