// Sweeps with how far each is.
import type { JSX } from 'preact'
import { readSweeps } from '../api/calls'
import type { Sweep, SweepStates } from '../api/sweeps'
import { sweepLink } from '../route'
import { useNow } from '../state/clock'
import { useRead } from '../state/use'
import { Ago, Empty, ProblemBox } from '../parts/bits'
import { clock } from '../text/time'
import { counted, firstLine, grouped } from '../text/words'

export function SweepsPage(): JSX.Element {
  const { data, problem } = useRead('sweeps', readSweeps, (event) => event.kind === 'job')
  const newestFirst = [...(data ?? [])].sort((a, b) => b.submitted_at.localeCompare(a.submitted_at))
  return (
    <div class="page scrolls">
      <div class="head"><h1>Sweeps</h1><span class="grow" /><a class="button" href="#/submit?tab=sweep">New sweep</a></div>
      {problem && data === null && <ProblemBox problem={problem} />}
      {data && (
        <div class="panel section">
          {data.length === 0 && <Empty title="No sweeps yet"><span>A sweep runs one command with many values. <a class="link" href="#/submit?tab=sweep">Start one</a></span></Empty>}
          {newestFirst.map((sweep) => <SweepCard key={sweep.name} sweep={sweep} />)}
        </div>
      )}
    </div>
  )
}

function SweepCard({ sweep }: { sweep: Sweep }): JSX.Element {
  const now = useNow()
  const ended = sweep.states.completed + sweep.states.failed + sweep.states.killed
  return (
    <a class="sweep-card" href={sweepLink(sweep.name)}>
      <span>
        <span class="title"><strong class="cut">{sweep.name}</strong>{sweep.stopped !== null && <span class="chip warn">stopped</span>}{sweep.project !== null && <span class="chip">{sweep.project}</span>}</span>
        <code class="cut soft" style={{ display: 'block' }}>{firstLine(sweep.command)}</code>
      </span>
      <span>
        <SweepProgress states={sweep.states} jobs={sweep.jobs} />
        <span class="faint">{grouped(ended)} of {counted(sweep.jobs, 'job')} ended</span>
      </span>
      <Tally states={sweep.states} />
      <span class="soft">
        <span style={{ display: 'block' }}>{sweep.expected_end !== null && `ends ~${clock(sweep.expected_end, now)}`}</span>
        <span class="faint">queued <Ago time={sweep.submitted_at} /></span>
      </span>
    </a>
  )
}

const ORDER = ['completed', 'failed', 'killed', 'running', 'copying', 'held'] as const

export function SweepProgress({ states, jobs }: { states: SweepStates; jobs: number }): JSX.Element {
  const said = ORDER.filter((state) => states[state] > 0).map((state) => `${states[state]} ${state}`).join(', ')
  return (
    <div class="progress" role="img" aria-label={said === '' ? 'nothing has started' : said}>
      {ORDER.map((state) => states[state] > 0 && <span key={state} class={state} style={{ width: `${(100 * states[state]) / Math.max(1, jobs)}%` }} />)}
    </div>
  )
}

const LETTERS = [
  ['running', 'R'], ['copying', 'C'], ['queued', 'Q'], ['held', 'H'], ['completed', 'D'], ['failed', 'F'], ['killed', 'K'],
] as const

/** `12R 30Q 4F`; D is done. */
export function Tally({ states }: { states: SweepStates }): JSX.Element {
  return (
    <span class="tally">
      {LETTERS.map(([state, letter]) => states[state] > 0 && <span key={state} class={state} title={`${states[state]} ${state}`}>{states[state]}{letter}</span>)}
    </span>
  )
}
