// One job: what it is, how it stands, what it prints, its terminal, and what can be done to it.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { copyResults, readJob } from '../api/calls'
import { hasEnded, type JobDetail, type Run } from '../api/jobs'
import { go } from '../route'
import { useNow } from '../state/clock'
import { attempt } from '../state/toasts'
import { useRead } from '../state/use'
import { DEEDS, fitting, menuFor, perform, type ActionName } from '../parts/actions'
import { Chips, Clock, CommandBox, JobId, ProblemBox, Runtime, StateWord } from '../parts/bits'
import { Icon } from '../parts/icons'
import { LogView } from '../parts/log'
import { Menu } from '../parts/menu'
import { TerminalView } from '../parts/terminal'
import { WhyBox } from '../parts/why'
import { cause } from '../text/ended'
import { expectedEnd, expectedStart, needs, placeOf, placeOfRun } from '../text/place'
import { exact, span } from '../text/time'
import { bytes, firstLine, memory, printable } from '../text/words'

const BUTTONS: ActionName[] = ['release', 'rerun', 'edit', 'kill', 'remove']
const MORE: ActionName[] = ['first', 'hold', 'resume', 'forget']

export function JobPage({ id, view }: { id: string; view: string | null }): JSX.Element {
  const { data: job, problem } = useRead(`job ${id}`, () => readJob(id), (event) => event.kind === 'job' && event.id === id)
  if (job === null) return <div class="page scrolls">{problem ? <ProblemBox problem={problem} /> : <p class="faint">Reading…</p>}</div>
  const terminal = view === 'terminal' && !hasEnded(job.state)
  const look = (next: string) => go(next === 'terminal' ? `#/jobs/${id}?view=terminal` : `#/jobs/${id}`)
  return (
    <div class="page fills">
      <div class="head">
        <h1 class="mono">{job.id}</h1>
        {job.name !== null && <strong class="cut">{printable(job.name)}</strong>}
        <StateWord job={job} withCause />
        <Chips job={job} />
        <span class="grow" />
        <Actions job={job} />
      </div>
      {problem?.status === 404 && <div class="tools"><ProblemBox problem={problem} /></div>}
      <div class="job-page">
        <div class="job-main">
          <CommandBox text={job.command} />
          <WhyBox job={job} />
          {job.state === 'running' && (
            <div class="segments" role="group" aria-label="What to show" style={{ alignSelf: 'flex-start' }}>
              <button type="button" aria-pressed={!terminal} onClick={() => look('log')}>Log</button>
              <button type="button" aria-pressed={terminal} onClick={() => look('terminal')}>Terminal</button>
            </div>
          )}
          {terminal ? <TerminalView id={id} /> : <LogView job={job} />}
        </div>
        <aside class="job-side" aria-label="Facts">
          <Times job={job} />
          <Asked job={job} />
          {job.runs.length > 0 && <Attempts job={job} />}
          <Left job={job} />
          {job.links.length > 0 && <Links links={job.links} />}
          <Environment job={job} />
        </aside>
      </div>
    </div>
  )
}

function Actions({ job }: { job: JobDetail }): JSX.Element {
  const resumable = MORE.filter((name) => name !== 'resume' || job.checkpoint_dir !== undefined)
  return (
    <>
      {fitting(job, BUTTONS).map((name) => (
        <button key={name} type="button" class={`button ${DEEDS[name].danger ? 'danger' : ''}`} onClick={() => perform(name, [job])}>
          <Icon name={DEEDS[name].icon} />{DEEDS[name].label}
        </button>
      ))}
      <Menu label="More" items={menuFor(job, resumable)} />
    </>
  )
}

function Times({ job }: { job: JobDetail }): JSX.Element {
  const now = useNow()
  const start = expectedStart(job, now)
  const end = hasEnded(job.state) ? '' : expectedEnd(job, now)
  return (
    <section>
      <dl class="facts">
        {placeOf(job) !== '' && <><dt>Where</dt><dd>{placeOf(job)}{job.simulated && ' (simulated)'}</dd></>}
        {job.pid !== null && job.state === 'running' && <><dt>PID</dt><dd>{job.pid}</dd></>}
        {job.attempt > 0 && job.started_at !== null && <><dt>Runtime</dt><dd><Runtime job={job} /></dd></>}
        {job.position !== null && <><dt>Place</dt><dd>{job.position}</dd></>}
        <dt>Submitted</dt><dd><Clock time={job.submitted_at} /></dd>
        {job.started_at !== null && <><dt>Started</dt><dd><Clock time={job.started_at} /></dd></>}
        {start !== '' && <><dt>Starts</dt><dd>{start}</dd></>}
        {job.ended_at !== null && <><dt>Ended</dt><dd><Clock time={job.ended_at} /></dd></>}
        {end !== '' && <><dt>Ends</dt><dd>{end}</dd></>}
        {job.rerun_of !== null && <><dt>Repeats</dt><dd><JobId id={job.rerun_of} /></dd></>}
        {job.replaced_by !== null && <><dt>Repeated by</dt><dd><JobId id={job.replaced_by} /></dd></>}
      </dl>
    </section>
  )
}

function Asked({ job }: { job: JobDetail }): JSX.Element {
  return (
    <section>
      <h2>Asked for</h2>
      <dl class="facts">
        <dt>Needs</dt><dd>{needs(job.request)}{job.by_rule !== null && <span class="soft"> by the rule {printable(job.by_rule)}</span>}</dd>
        <dt>Priority</dt><dd>{job.priority} <span class="soft">(low first)</span></dd>
        {job.retries > 0 && <><dt>Retries</dt><dd>{job.retries}{job.retry_on.length > 0 && `, also on ${job.retry_on.join(', ')}`}</dd></>}
        {job.after.length > 0 && <><dt>After</dt><dd><Ids ids={job.after} /></dd></>}
        {job.after_any.length > 0 && <><dt>After any</dt><dd><Ids ids={job.after_any} /></dd></>}
        {job.unique && <><dt>Unique</dt><dd>refused where an identical job is</dd></>}
        <dt>Folder</dt><dd><code>{printable(job.cwd)}</code></dd>
        {job.conda !== undefined && <><dt>Conda</dt><dd>{printable(job.conda)}</dd></>}
        {job.venv !== undefined && <><dt>Venv</dt><dd><code>{printable(job.venv)}</code></dd></>}
        {job.gpu_arg !== undefined && <><dt>GPU option</dt><dd><code>{printable(job.gpu_arg)}</code></dd></>}
        {job.params !== null && Object.entries(job.params).map(([name, value]) => <><dt key={name}>{printable(name)}</dt><dd>{printable(value)}</dd></>)}
      </dl>
    </section>
  )
}

function Ids({ ids }: { ids: string[] }): JSX.Element {
  return <>{ids.map((id) => <span key={id}><JobId id={id} /> </span>)}</>
}

function Attempts({ job }: { job: JobDetail }): JSX.Element {
  return (
    <section>
      <h2>{job.runs.length === 1 ? 'Attempt' : 'Attempts'}</h2>
      <ul class="runs">
        {[...job.runs].reverse().map((run) => <RunLine key={run.attempt} run={run} />)}
      </ul>
    </section>
  )
}

function RunLine({ run }: { run: Run }): JSX.Element {
  const how = run.outcome === null ? 'runs' : run.outcome.word === 'completed' ? 'completed' : cause(run.outcome.word, run.outcome.exit_code, run.outcome.signal)
  const lasted = run.started_at !== null && run.ended_at !== null ? span((Date.parse(run.ended_at) - Date.parse(run.started_at)) / 1000) : ''
  const share = [run.part !== null ? `${run.part} GPU` : null, run.vram_mib !== null ? memory(run.vram_mib) : null].filter((text) => text !== null)
  return (
    <li>
      <strong>{run.attempt}</strong>
      <span>{how}</span>
      <span class="soft">{placeOfRun(run)}{share.length > 0 && ` (${share.join(', ')})`}</span>
      <span class="soft" title={run.started_at === null ? undefined : exact(run.started_at)}>{lasted}</span>
      {run.pid !== null && <span class="faint">pid {run.pid}</span>}
      {run.peak_vram_mib !== null && <span class="faint">peak {memory(run.peak_vram_mib)}</span>}
      {run.outcome?.error && <span class="bad">{printable(run.outcome.error)}</span>}
    </li>
  )
}

function Left({ job }: { job: JobDetail }): JSX.Element | null {
  const extracted = Object.entries(job.extracted ?? {})
  const nothing = extracted.length === 0 && job.results === null && job.results_named.length === 0 && job.results_folder === undefined
  if (nothing) return null
  const canCopy = hasEnded(job.state) && (job.results_named.length > 0 || job.results_folder !== undefined || job.results !== null)
  return (
    <section>
      <h2>Results</h2>
      <dl class="facts">
        {extracted.map(([name, value]) => <><dt key={name}>{printable(name)}</dt><dd><strong>{printable(value)}</strong></dd></>)}
        {job.results_named.map((path) => <><dt key={path}>Named</dt><dd><code>{printable(path)}</code></dd></>)}
        {job.results_folder !== undefined && <><dt>Own folder</dt><dd><code>{printable(job.results_folder)}</code></dd></>}
        {job.results !== null && <><dt>{job.results_state === 'copied' ? 'Copied to' : 'Goes to'}</dt><dd><code>{printable(job.results)}</code></dd></>}
        {job.results_state === 'failed' && <><dt>Copy</dt><dd class="bad">failed{job.results_error !== undefined && `: ${printable(job.results_error)}`}</dd></>}
        {job.results_copy && <><dt>Copying</dt><dd>{bytes(job.results_copy.done_bytes)} of {bytes(job.results_copy.total_bytes)}</dd></>}
      </dl>
      {canCopy && <CopyResults job={job} />}
    </section>
  )
}

function CopyResults({ job }: { job: JobDetail }): JSX.Element {
  const [to, setTo] = useState('')
  const copy = (event: Event) => {
    event.preventDefault()
    void attempt(() => copyResults(job.id, to === '' ? null : to), 'The copy has begun')
  }
  return (
    <form class="copy-results" onSubmit={copy}>
      <input type="text" value={to} placeholder={job.results === null ? 'Folder, as in /data/results' : 'Another folder, or the same again'} aria-label="Copy the results to this folder" onInput={(event) => setTo(event.currentTarget.value)} />
      <button type="submit" class="button" disabled={to === '' && job.results === null}>Copy</button>
    </form>
  )
}

/** Only what is plainly an address of the web can be followed. */
function Links({ links }: { links: string[] }): JSX.Element {
  return (
    <section>
      <h2>Links it printed</h2>
      <ul>
        {links.map((link) => (
          <li key={link} class="cut">
            {/^https?:\/\//.test(link) ? <a class="link" href={link} target="_blank" rel="noopener noreferrer">{printable(link)}</a> : printable(link)}
          </li>
        ))}
      </ul>
    </section>
  )
}

function Environment({ job }: { job: JobDetail }): JSX.Element {
  return (
    <section>
      <h2>Files</h2>
      <dl class="facts">
        {job.checkpoint_dir !== undefined && <><dt>Checkpoints</dt><dd><code>{printable(job.checkpoint_dir)}</code></dd></>}
        <dt>stdout</dt><dd><code>{printable(job.stdout_path)}</code></dd>
        <dt>stderr</dt><dd><code>{printable(job.stderr_path)}</code></dd>
      </dl>
      {job.argv !== null && <p class="soft" style={{ marginTop: '6px' }}>Run without a shell, as {job.argv.length} words: {firstLine(job.argv[0] ?? '')} …</p>}
      {job.env_names.length > 0 && (
        <details style={{ marginTop: '6px' }}>
          <summary class="soft">Environment: {job.env_names.length} names</summary>
          <p class="mono faint" style={{ overflowWrap: 'anywhere' }}>{job.env_names.map(printable).join(' ')}</p>
        </details>
      )}
    </section>
  )
}
