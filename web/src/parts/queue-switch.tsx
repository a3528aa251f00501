// Whether the queue starts jobs, and the button that changes it.
import type { JSX } from 'preact'
import { setQueuePaused } from '../api/calls'
import { status } from '../state/status'
import { useStore } from '../state/store'
import { attempt } from '../state/toasts'
import { Icon } from './icons'

export function QueueSwitch(): JSX.Element | null {
  const now = useStore(status)
  if (now === null) return null
  const paused = now.queue_paused
  const change = () => attempt(() => setQueuePaused(!paused), paused ? 'The queue goes on' : 'The queue is paused: running jobs finish, no job starts')
  return (
    <>
      {paused && <span class="chip warn">Queue paused</span>}
      <button type="button" class="button" onClick={change}>
        <Icon name={paused ? 'play' : 'pause'} />
        {paused ? 'Resume queue' : 'Pause queue'}
      </button>
    </>
  )
}
