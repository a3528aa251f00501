// Jobs that start, run, or copy their results.
import type { CSSProperties, JSX } from 'preact'
import { readActive } from '../api/calls'
import type { Job } from '../api/jobs'
import { useNow } from '../state/clock'
import { useRead } from '../state/use'
import { expectedEnd, placeInRow, placeOf } from '../text/place'
import { DEEDS, menuFor, perform } from '../parts/actions'
import { Empty, JobId, ProblemBox, Runtime, StateWord, What } from '../parts/bits'
import { Icon } from '../parts/icons'
import { Menu } from '../parts/menu'
import { usePhone } from '../parts/phone'
import { Rows } from '../parts/rows'
import { go, jobLink } from '../route'

export function RunningPage(): JSX.Element {
  const phone = usePhone()
  const { data, problem } = useRead('running', readActive, (event) => event.kind === 'job')
  const rows = data ?? []
  return (
    <div class="page fills">
      <div class="head"><h1>Running</h1><span class="faint">{data ? rows.length : ''}</span></div>
      {problem && data === null && <div class="tools"><ProblemBox problem={problem} /></div>}
      <div class="list running-list">
        <div class="list-head" aria-hidden="true">
          <span>State</span><span>Id</span><span>Job</span><span>Where</span><span class="number">PID</span><span class="number">Runtime</span><span class="number">Expected end</span><span />
        </div>
        {data && rows.length === 0
          ? <Empty title="Nothing runs"><a class="link" href="#/submit">Queue a job</a></Empty>
          : <Rows rows={rows} rowHeight={phone ? 86 : 40} label="Running jobs">{(job, _index, style) => <RunningRow key={job.id} job={job} style={style} />}</Rows>}
      </div>
    </div>
  )
}

function RunningRow({ job, style }: { job: Job; style: CSSProperties }): JSX.Element {
  const now = useNow()
  return (
    <div class="row" role="row" style={style} tabIndex={0} onKeyDown={(event) => event.key === 'Enter' && event.target === event.currentTarget && go(jobLink(job.id))}>
      <span role="cell" class="c-state"><StateWord job={job} /></span>
      <span role="cell" class="c-id"><JobId id={job.id} /></span>
      <span role="cell" class="c-what"><What job={job} /></span>
      <span role="cell" class="c-where soft cut" title={placeOf(job)}>{placeInRow(job)}{job.simulated && ' (simulated)'}</span>
      <span role="cell" class="c-pid number soft">{job.pid}</span>
      <span role="cell" class="c-time number"><Runtime job={job} /></span>
      <span role="cell" class="c-end number soft">{expectedEnd(job, now)}</span>
      <span role="cell" class="c-do end">
        {DEEDS.terminal.fits(job) && <a class="icon-button" aria-label={`Terminal of ${job.id}`} title="Terminal" href={`#/jobs/${job.id}?view=terminal`}><Icon name="terminal" /></a>}
        {DEEDS.kill.fits(job) && <button type="button" class="icon-button" aria-label={`Kill ${job.id}`} title="Kill" onClick={() => perform('kill', [job])}><Icon name="stop" /></button>}
        <Menu label={`More for ${job.id}`} items={menuFor(job, ['edit'])} />
      </span>
    </div>
  )
}
