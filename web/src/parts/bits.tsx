// Small things that many pages show: a state, an id, a time that ticks, a text to copy, a problem.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import type { Problem } from '../api/http'
import type { Job } from '../api/jobs'
import { jobLink, sweepLink } from '../route'
import { useNow } from '../state/clock'
import { tellProblem } from '../state/toasts'
import { causeOf } from '../text/ended'
import { ago, clock, exact, runtime } from '../text/time'
import { capital, firstLine, printable } from '../text/words'
import { Icon, StateMark } from './icons'

export function StateWord({ job, withCause = false }: { job: Job; withCause?: boolean }): JSX.Element {
  const cause = withCause ? causeOf(job) : ''
  return (
    <span class={`state ${job.state}`} title={job.detail ?? undefined}>
      <StateMark state={job.state} />
      <span class="cut">
        {job.state}
        {cause !== '' && <span class="cause"> · {cause}</span>}
      </span>
    </span>
  )
}

export function JobId({ id }: { id: string }): JSX.Element {
  return <a class="id" href={jobLink(id)}>{id}</a>
}

/** Name and command on one line. */
export function What({ job }: { job: Pick<Job, 'name' | 'command'> }): JSX.Element {
  return (
    <span class="what">
      {job.name !== null && <span class="name cut">{printable(job.name)}</span>}
      <code class="cut" title={printable(job.command)}>{firstLine(job.command)}</code>
    </span>
  )
}

export function Chips({ job }: { job: Pick<Job, 'project' | 'tags' | 'sweep'> }): JSX.Element {
  return (
    <>
      {job.sweep !== null && <a class="chip" href={sweepLink(job.sweep)} title="sweep"><span class="cut">sweep {job.sweep}</span></a>}
      {job.project !== null && (
        <a class="chip" href={`#/history?project=${encodeURIComponent(job.project)}`} title="project"><span class="cut">{printable(job.project)}</span></a>
      )}
      {job.tags.map((tag) => (
        <a key={tag} class="chip" href={`#/history?tag=${encodeURIComponent(tag)}`} title="tag"><span class="cut">#{printable(tag)}</span></a>
      ))}
    </>
  )
}

export function Runtime({ job }: { job: Job }): JSX.Element {
  return <>{runtime(job, useNow())}</>
}

export function Ago({ time }: { time: string }): JSX.Element {
  return <time dateTime={time} title={exact(time)}>{ago(time, useNow())}</time>
}

/** It does not tick: long lists have one in each row. */
export function Clock({ time }: { time: string }): JSX.Element {
  return <time dateTime={time} title={exact(time)}>{clock(time, new Date())}</time>
}

/** Pages that come over a line without encryption have no clipboard of their own; they use the old way. */
async function copyText(text: string): Promise<void> {
  if (window.isSecureContext) return navigator.clipboard.writeText(text)
  const field = document.createElement('textarea')
  field.value = text
  document.body.append(field)
  field.select()
  document.execCommand('copy')
  field.remove()
}

export function CopyButton({ text, label }: { text: string; label: string }): JSX.Element {
  const [copied, setCopied] = useState(false)
  useEffect(() => {
    if (!copied) return
    const timer = window.setTimeout(() => setCopied(false), 1500)
    return () => window.clearTimeout(timer)
  }, [copied])
  const copy = () => copyText(text).then(() => setCopied(true), tellProblem)
  return (
    <button type="button" class="icon-button" aria-label={copied ? 'Copied' : label} title={copied ? 'Copied' : label} onClick={copy}>
      <Icon name={copied ? 'check' : 'copy'} />
    </button>
  )
}

export function CommandBox({ text, label = 'Copy the command' }: { text: string; label?: string }): JSX.Element {
  return (
    <div class="command-box">
      <pre>{printable(text)}</pre>
      <CopyButton text={text} label={label} />
    </div>
  )
}

export function ProblemBox({ problem }: { problem: Problem }): JSX.Element {
  const { title, why, hint } = problem.body
  return (
    <div class="problem-box" role="alert">
      <strong>{capital(title)}</strong>
      {why && <span>{capital(why)}</span>}
      {hint && <span class="soft">Try: <code>{hint}</code></span>}
    </div>
  )
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children}
    </div>
  )
}

/** nvitop's steps: green below the first, yellow to the second, red above. */
export function level(percent: number, high: number): 'low' | 'mid' | 'high' {
  if (percent < 10) return 'low'
  return percent < high ? 'mid' : 'high'
}

export function Meter({ percent, high, label }: { percent: number | null; high: number; label: string }): JSX.Element {
  const shown = Math.min(100, Math.max(0, percent ?? 0))
  return (
    <div class={`meter ${level(shown, high)}`} role="meter" aria-label={label} aria-valuemin={0} aria-valuemax={100} aria-valuenow={shown}>
      <span style={{ width: `${shown}%` }} />
    </div>
  )
}
