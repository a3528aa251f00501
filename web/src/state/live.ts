// The one stream of events of this tab. Says whether the service is there, and brings it back by itself.
//
//   connecting ──open──▶ open ──error──▶ lost ──open──▶ open (everything is read anew)
//        └── 401 ──▶ logged-out ◀── 401 ──┘
import { get, whenLoggedOut } from '../api/http'
import type { Event, Service } from '../api/service'
import { Store } from './store'

export type Connection = 'connecting' | 'open' | 'lost' | 'logged-out'

export const connection = new Store<Connection>('connecting')
/** Nobody has looked at this tab for a while: what only serves the eye rests. */
export const resting = new Store(false)

type Listener = (event: Event) => void

const listeners = new Set<Listener>()
let source: EventSource | null = null
let retry: number | undefined
let hideTimer: number | undefined

/** A tab nobody looks at gives its connection back after this: browsers allow only six to one service. */
const HIDDEN_FOR_MS = 20_000
const RETRY_MS = 1000

export function listen(listener: Listener): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function tell(event: Event): void {
  for (const listener of [...listeners]) listener(event)
}

export function startLive(): void {
  whenLoggedOut(() => {
    close()
    connection.set('logged-out')
  })
  document.addEventListener('visibilitychange', () => {
    window.clearTimeout(hideTimer)
    if (document.hidden) hideTimer = window.setTimeout(rest, HIDDEN_FOR_MS)
    else wake()
  })
  open()
}

function rest(): void {
  close()
  resting.set(true)
}

function wake(): void {
  resting.set(false)
  if (source === null && connection.get() !== 'logged-out') open()
}

function close(): void {
  window.clearTimeout(retry)
  source?.close()
  source = null
}

function open(): void {
  close()
  const events = new EventSource('/v1/events?readings=true')
  source = events
  let opened = false
  events.onopen = () => {
    // Reconnected by itself, the stream goes on where it was; a new service says what was missed.
    if (!opened || connection.get() === 'lost') tell({ kind: 'missed' })
    opened = true
    connection.set('open')
  }
  events.onmessage = (message: MessageEvent<string>) => tell(JSON.parse(message.data) as Event)
  events.onerror = () => {
    if (connection.get() === 'logged-out') return
    connection.set('lost')
    if (events.readyState === EventSource.CLOSED) comeBack()
  }
}

/** The browser gave up: ask the service whether it knows us, then try again. */
function comeBack(): void {
  close()
  retry = window.setTimeout(() => {
    get<Service>('/v1/service').then(open, () => {
      if (connection.get() !== 'logged-out') comeBack()
    })
  }, RETRY_MS)
}

/** Tries at once instead of at the next turn. */
export function tryNow(): void {
  open()
}
