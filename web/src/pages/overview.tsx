// The whole at a glance: every GPU with who holds it, what runs, what failed lately.
import type { JSX } from 'preact'
import { readJobs } from '../api/calls'
import type { Job } from '../api/jobs'
import type { Machine, Status } from '../api/service'
import { useNow } from '../state/clock'
import { status } from '../state/status'
import { useStore } from '../state/store'
import { useRead } from '../state/use'
import { causeOf } from '../text/ended'
import { isReached } from '../text/machines'
import { ago } from '../text/time'
import { capital, counted, firstLine, grouped, printable } from '../text/words'
import { DEEDS, menuFor, perform } from '../parts/actions'
import { Empty, JobId, Runtime, StateWord, What } from '../parts/bits'
import { ClusterCard } from '../parts/cluster'
import { GpuCard } from '../parts/gpu'
import { Icon, StateMark } from '../parts/icons'
import { Menu } from '../parts/menu'
import { Standing } from '../parts/machine-bits'
import { QueueSwitch } from '../parts/queue-switch'
import { placeInRow, placeOf } from '../text/place'

const FAILURES_SHOWN = 5

export function OverviewPage(): JSX.Element {
  const now = useStore(status)
  if (now === null) return <div class="page scrolls"><p class="faint">Reading…</p></div>
  const jobs = new Map(now.active.map((job) => [job.id, job]))
  return (
    <div class="page scrolls">
      <div class="head">
        <h1>Overview</h1>
        <span class="grow" />
        <QueueSwitch />
      </div>
      <Counts now={now} />
      {now.machines.map((machine) => <MachineGpus key={machine.name} machine={machine} jobs={jobs} alone={now.machines.length === 1} />)}
      <div class="overview-below">
        <RunningNow jobs={now.active} />
        <Failures now={now} />
      </div>
    </div>
  )
}

function Counts({ now }: { now: Status }): JSX.Element {
  const gpus = now.machines.flatMap((machine) => machine.gpus)
  const busy = gpus.filter((gpu) => gpu.jobs.length > 0).length
  return (
    <ul class="counts">
      <Count number={`${busy} / ${gpus.length}`} word="GPUs busy" to="#/" />
      <Count number={grouped(now.active.length)} word="running" to="#/running" />
      <Count number={grouped(now.pending)} word={now.held > 0 ? `waiting, ${grouped(now.held)} held` : 'waiting'} to="#/queue" />
      <Count number={grouped(now.completed)} word="completed" to="#/history?state=completed" />
      <Count number={grouped(now.failed)} word="failed" to="#/history?state=failed" bad={now.failed > 0} />
      <Count number={grouped(now.killed)} word="killed" to="#/history?state=killed" />
    </ul>
  )
}

function Count({ number, word, to, bad = false }: { number: string; word: string; to: string; bad?: boolean }): JSX.Element {
  return (
    <li>
      <a href={to}>
        <span class={`big ${bad ? 'bad' : ''}`}>{number}</span>
        <span class="soft">{word}</span>
      </a>
    </li>
  )
}

function MachineGpus({ machine, jobs, alone }: { machine: Machine; jobs: Map<string, Job>; alone: boolean }): JSX.Element {
  const here = [...jobs.values()].filter((job) => job.machine === machine.name)
  const onCpu = here.filter((job) => job.gpus.length === 0)
  const slurm = machine.pool?.slurm ?? null
  return (
    <section class="section" aria-label={`Machine ${machine.name}`}>
      <div class="section-head">
        <h2>{alone ? 'GPUs' : machine.name}</h2>
        {isReached(machine) && slurm === null && <span class="faint">{counted(machine.gpus.length, 'GPU')}, {counted(machine.cpus, 'CPU')}</span>}
        {!alone && machine.pool?.class != null && <span class="chip" title="class"><span class="cut">{printable(machine.pool.class)}</span></span>}
      </div>
      {!alone && <Standing machine={machine} />}
      {machine.error !== null && <div class="problem-box" role="alert"><strong>GPUs cannot be read</strong><span>{printable(machine.error)}</span><span class="soft">Try: <code>nexus doctor</code></span></div>}
      {machine.gpus.length === 0 && machine.error === null && isReached(machine) && slurm === null && (
        <div class="panel"><Empty title="No GPU here"><span>Jobs that ask for 0 GPUs run on the CPU.</span></Empty></div>
      )}
      <div class="gpu-grid">
        {machine.gpus.map((gpu) => <GpuCard key={gpu.index} machine={machine} gpu={gpu} jobs={jobs} />)}
        {slurm !== null && <ClusterCard machine={machine} slurm={slurm} jobs={here} />}
        {onCpu.length > 0 && slurm === null && (
          <article class="gpu panel" aria-label="CPU">
            <header><strong>CPU</strong><span class="soft">{counted(onCpu.length, 'job')}</span></header>
            <ul class="gpu-who">
              {onCpu.map((job) => (
                <li key={job.id}><JobId id={job.id} /><What job={job} /><span class="soft when"><Runtime job={job} /></span></li>
              ))}
            </ul>
          </article>
        )}
      </div>
    </section>
  )
}

function RunningNow({ jobs }: { jobs: Job[] }): JSX.Element {
  return (
    <section class="section" aria-label="Running jobs">
      <div class="section-head"><h2>Running</h2><a class="link" href="#/running">all</a></div>
      <div class="panel">
        {jobs.length === 0 && <Empty title="Nothing runs"><a class="link" href="#/submit">Queue a job</a></Empty>}
        <ul class="short-list">
          {jobs.slice(0, 12).map((job) => (
            <li key={job.id}>
              <StateWord job={job} />
              <JobId id={job.id} />
              <What job={job} />
              <span class="soft" title={placeOf(job)}>{placeInRow(job)}</span>
              <span class="soft pid">{job.pid !== null && `pid ${job.pid}`}</span>
              <span class="number"><Runtime job={job} /></span>
              <span class="end">
                {DEEDS.kill.fits(job) && (
                  <button type="button" class="icon-button" aria-label={`Kill ${job.id}`} title="Kill" onClick={() => perform('kill', [job])}><Icon name="stop" /></button>
                )}
                <Menu label={`More for ${job.id}`} items={menuFor(job, ['terminal', 'edit'])} />
              </span>
            </li>
          ))}
        </ul>
      </div>
    </section>
  )
}

function Failures({ now }: { now: Status }): JSX.Element {
  const clock = useNow()
  const { data } = useRead('failures', () => readJobs({ state: 'failed' }, '', FAILURES_SHOWN), (event) => event.kind === 'job' && event.state === 'failed')
  const lastLines = new Map(now.failures.map((failure) => [failure.id, failure.last_line]))
  const rows = data?.rows ?? []
  return (
    <section class="section" aria-label="Recent failures">
      <div class="section-head"><h2>Recent failures</h2>{rows.length > 0 && <a class="link" href="#/history?state=failed">all</a>}</div>
      <div class="panel">
        {rows.length === 0 && <Empty title="No job failed" />}
        <ul class="failures">
          {rows.map((job) => {
            const said = lastLines.get(job.id) ?? (job.reason === 'exit' || job.reason === 'signal' ? null : job.detail)
            return (
              <li key={job.id}>
                <span class="state failed"><StateMark state="failed" /></span>
                <JobId id={job.id} />
                <span class="cut">{capital(causeOf(job))}{said ? <span class="soft">: {firstLine(said.trim())}</span> : <span class="soft"> · {firstLine(job.name ?? job.command)}</span>}</span>
                <span class="faint when">{job.ended_at !== null && ago(job.ended_at, clock)}</span>
              </li>
            )
          })}
        </ul>
      </div>
    </section>
  )
}
