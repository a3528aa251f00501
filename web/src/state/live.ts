// The one stream of events of this tab. Says whether the service is there, and brings it back by itself. After each lost
// connection the service has to prove itself before it is sent anything but a question (api/session.ts).
//
//   connecting ──proof, stream──▶ open ──stream ends──▶ lost ──proof, stream──▶ open (everything is read anew)
//        ├── the key is not known ──▶ logged-out        ├── the proof is wrong ──▶ unproved
//        └── each of these is tried again by itself
import { Problem, isAborted, request, whenLoggedOut } from '../api/http'
import type { Event } from '../api/service'
import { STORED_KEYS, forgetSession, hasKeys, prove } from '../api/session'
import { Store } from './store'

export type Connection = 'connecting' | 'open' | 'lost' | 'unproved' | 'logged-out'

export const connection = new Store<Connection>('connecting')
/** Nobody has looked at this tab for a while: what only serves the eye rests. */
export const resting = new Store(false)

type Listener = (event: Event) => void

const listeners = new Set<Listener>()
let stream: AbortController | null = null
let retry: number | undefined
let hideTimer: number | undefined

/** A tab nobody looks at gives its connection back after this: browsers allow only six to one service. */
const HIDDEN_FOR_MS = 20_000
const RETRY_MS = 1000
/** Who answers that this browser is not let in may be another program: the service may come back. */
const LOGGED_OUT_RETRY_MS = 5000
/** A session is good for an hour. What a closed browser holds lasts from the last proof on. */
const PROVE_EVERY_MS = 20 * 60_000

export function listen(listener: Listener): () => void {
  listeners.add(listener)
  return () => void listeners.delete(listener)
}

function tell(event: Event): void {
  for (const listener of [...listeners]) listener(event)
}

export function startLive(): void {
  whenLoggedOut(() => fail('logged-out'))
  document.addEventListener('visibilitychange', () => {
    window.clearTimeout(hideTimer)
    if (document.hidden) hideTimer = window.setTimeout(rest, HIDDEN_FOR_MS)
    else wake()
  })
  // Another tab of this browser was let in.
  window.addEventListener('storage', (event) => event.key === STORED_KEYS && connection.get() === 'logged-out' && open())
  window.setInterval(() => connection.get() === 'open' && void prove().catch(() => document.hidden || open()), PROVE_EVERY_MS)
  open()
}

function rest(): void {
  close()
  forgetSession()
  resting.set(true)
}

function wake(): void {
  resting.set(false)
  if (stream === null) open()
}

function close(): void {
  window.clearTimeout(retry)
  stream?.abort()
  stream = null
}

function open(): void {
  close()
  stream = new AbortController()
  void follow(stream.signal)
}

/** Until the stream ends, and then again. */
async function follow(signal: AbortSignal): Promise<void> {
  try {
    forgetSession()
    const response = await request('/v1/events?readings=true', { signal })
    tell({ kind: 'missed' })
    connection.set('open')
    await hear(response, signal)
    if (!signal.aborted) fail('lost')
  } catch (error) {
    if (isAborted(error) || signal.aborted) return
    fail(error instanceof Problem && error.body.problem === 'unproved' ? 'unproved' : 'lost')
  }
}

/** Reads server-sent events: fields in lines, an empty line behind each event. */
async function hear(response: Response, signal: AbortSignal): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader()
  let text = ''
  for (;;) {
    const { done, value } = (await reader?.read()) ?? { done: true, value: undefined }
    if (done || signal.aborted) return
    const frames = (text + value).split('\n\n')
    text = frames.pop() ?? ''
    for (const frame of frames) {
      const data = frame.split('\n').find((line) => line.startsWith('data: '))
      if (data !== undefined) tell(JSON.parse(data.slice('data: '.length)) as Event)
    }
  }
}

function fail(how: 'lost' | 'unproved' | 'logged-out'): void {
  close()
  forgetSession()
  connection.set(how)
  if (how !== 'logged-out') retry = window.setTimeout(open, RETRY_MS)
  else if (hasKeys()) retry = window.setTimeout(open, LOGGED_OUT_RETRY_MS)
}

/** Tries at once instead of at the next turn. */
export function tryNow(): void {
  open()
}
