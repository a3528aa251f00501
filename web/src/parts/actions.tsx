// What can be done to jobs, by their state. Ending and deleting ask first.
import { act, rerun } from '../api/calls'
import { hasEnded, isWaiting, type Action, type Job } from '../api/jobs'
import { go } from '../route'
import { Store } from '../state/store'
import { attempt, tellDone, tellProblem } from '../state/toasts'
import { noteText } from '../text/notes'
import { runtime } from '../text/time'
import { counted, firstLine } from '../text/words'
import { ask } from './dialog'
import type { IconName } from './icons'
import type { MenuItem } from './menu'

export type ActionName = Action | 'rerun' | 'resume' | 'edit' | 'terminal'

interface Deed {
  label: string
  icon: IconName
  danger?: boolean
  fits: (job: Job) => boolean
}

const runs = (job: Job) => job.state === 'starting' || job.state === 'running' || job.state === 'copying'

/** In the order in which menus show them. */
export const DEEDS: Record<ActionName, Deed> = {
  terminal: { label: 'Terminal', icon: 'terminal', fits: (job) => job.state === 'running' },
  first: { label: 'Put first', icon: 'top', fits: (job) => isWaiting(job.state) },
  hold: { label: 'Hold', icon: 'pause', fits: (job) => job.state === 'queued' },
  release: { label: 'Release', icon: 'play', fits: (job) => job.state === 'held' },
  edit: { label: 'Edit', icon: 'edit', fits: (job) => !hasEnded(job.state) && job.state !== 'copying' },
  rerun: { label: 'Run again', icon: 'again', fits: (job) => hasEnded(job.state) },
  resume: { label: 'Resume from checkpoint', icon: 'resume', fits: (job) => hasEnded(job.state) && job.attempt > 0 },
  kill: { label: 'Kill', icon: 'stop', danger: true, fits: runs },
  remove: { label: 'Remove', icon: 'trash', danger: true, fits: (job) => isWaiting(job.state) },
  forget: { label: 'Forget', icon: 'trash', danger: true, fits: (job) => hasEnded(job.state) },
  cancel: { label: 'Cancel', icon: 'stop', danger: true, fits: (job) => !hasEnded(job.state) },
}

/** The job whose edit dialog is open. */
export const edited = new Store<string | null>(null)

const DONE: Record<Action, string> = {
  kill: 'Killed', remove: 'Removed', cancel: 'Cancelled', hold: 'Held', release: 'Released', first: 'Put first', forget: 'Forgotten',
}

export function fitting(job: Job, among: ActionName[]): ActionName[] {
  return among.filter((name) => DEEDS[name].fits(job))
}

const line = (job: Job) => `${job.id}  ${firstLine(job.name ?? job.command)}`

function question(action: Action, jobs: Job[]): Parameters<typeof ask>[0] | null {
  const one = jobs.length === 1 ? jobs[0] : undefined
  const which = one ? `job ${one.id}` : counted(jobs.length, 'job')
  const things = jobs.slice(0, 100).map(line)
  switch (action) {
    case 'kill': {
      const ran = one ? runtime(one, new Date()) : ''
      const text = `${ran === '' ? 'It ends' : `It has run ${ran}. It ends`} with all its processes: TERM first, KILL after the grace time.`
      return { title: `Kill ${which}?`, text: one ? text : 'They end with all their processes.', things, action: 'Kill' }
    }
    case 'remove':
      return { title: `Remove ${which} from the queue?`, text: 'Removed jobs stay in the history and can be run again.', things, action: 'Remove' }
    case 'cancel':
      return { title: `Cancel ${which}?`, text: 'Running jobs are killed, waiting ones removed.', things, action: 'Cancel jobs' }
    case 'forget':
      return { title: `Forget ${which}?`, text: 'The record, the logs, the results kept by nexus and the checkpoints are deleted. This cannot be undone.', things, action: 'Forget' }
    default:
      return null
  }
}

/** True when it was done. */
export async function perform(name: ActionName, jobs: Job[]): Promise<boolean> {
  const first = jobs[0]
  if (!first) return false
  if (name === 'terminal') {
    go(`#/jobs/${first.id}?view=terminal`)
    return true
  }
  if (name === 'edit') {
    edited.set(first.id)
    return true
  }
  const ids = jobs.map((job) => job.id)
  if (name === 'rerun' || name === 'resume') return runAgain(ids, name === 'resume')
  const asked = question(name, jobs)
  if (asked !== null && !(await ask(asked))) return false
  const which = jobs.length === 1 ? first.id : counted(jobs.length, 'job')
  return attempt(() => act(name, ids), `${DONE[name]} ${which}`)
}

export async function runAgain(ids: string[], resume = false): Promise<boolean> {
  try {
    const { jobs, notes = [] } = await rerun(ids, resume)
    const id = jobs[0]?.id
    const more = notes.map((note) => `. ${noteText(note)}`).join('')
    if (jobs.length === 1 && id !== undefined) tellDone(`Queued again as ${id}${more}`, { text: 'Show', to: `#/jobs/${id}` })
    else tellDone(`Queued ${counted(jobs.length, 'job')} again${more}`)
    return true
  } catch (error) {
    tellProblem(error)
    return false
  }
}

export function menuFor(job: Job, among: ActionName[]): MenuItem[] {
  return fitting(job, among).map((name) => {
    const deed = DEEDS[name]
    return { label: deed.label, icon: deed.icon, danger: deed.danger ?? false, run: () => void perform(name, [job]) }
  })
}
