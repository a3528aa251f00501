// How this tab shows who it is: only to a service that has proved itself. Keys never travel from the browser to the service;
// docs/design/0015-proof-of-the-service.md has the messages and why they are so.
//
//   stored key (localStorage, for web.session after the last proof) ──┐
//   tab key (this tab's memory, computed from the stored key) ────────┴─▶ proof ─▶ session, good for an hour
import { hex, hmac, isSame } from './hmac'
import { Problem, problemOf, unreachable } from './problem'

/** A secret that this browser shares with the service. */
interface Key {
  /** Which key it is; no secret. */
  id: string
  key: string
  /** Address at which the service listened when it made the key, as in 127.0.0.1:4004. */
  at: string
}

interface Session {
  key: Key
  challenge: string
}

interface Proof {
  challenge: string
  proof: string
}

/** Ids of new keys. The keys themselves are not sent: both sides compute them. */
interface NewKeys {
  tab_id: string | null
  stored_id: string | null
}

/** Also written by the page that a link opens (crates/daemon/src/web/enter.js). */
export const STORED_KEYS = 'nexus.keys'
/** Several services may come by turns at one address of this browser, over ssh -L. */
const MAX_STORED_KEYS = 4
/** A port that takes connections and says nothing: a service that restarts while systemd holds its socket. */
const PROOF_TIMEOUT_MS = 5000

let tabKey: Key | null = null
let session: Session | null = null
let proving: Promise<Session> | null = null

/** The development server adds the token for programs to each request. */
const needsSession = !import.meta.env.DEV

export async function authorization(): Promise<Record<string, string>> {
  if (!needsSession) return {}
  return { authorization: `Nexus ${textOf(session ?? (await prove()))}` }
}

/** For a WebSocket, which can send no header but its protocols. */
export async function socketProtocols(): Promise<string[]> {
  return needsSession ? ['nexus-terminal', textOf(session ?? (await prove()))] : []
}

/** A path with a query that lets the browser itself fetch it, within a minute. */
export async function linkTo(path: string): Promise<string> {
  if (!needsSession) return path
  const { key, challenge } = await prove()
  const mac = hmac(key.key, `nexus link\n${key.at}\n${challenge}\n${path}`)
  return `${path}${path.includes('?') ? '&' : '?'}link=${key.id}.${challenge}.${mac}`
}

/** Nothing is sent from here on, until the service has proved itself anew. */
export function forgetSession(): void {
  session = null
}

export function hasKeys(): boolean {
  return !needsSession || tabKey !== null || storedKeys().length > 0
}

function textOf({ key, challenge }: Session): string {
  return `${key.id}.${challenge}.${hmac(key.key, `nexus session\n${key.at}\n${challenge}`)}`
}

/** Asks the service to prove itself; all who ask meanwhile share the answer. */
export function prove(): Promise<Session> {
  proving ??= proveWithAny().finally(() => (proving = null))
  return proving
}

async function proveWithAny(): Promise<Session> {
  session = null
  const keys = tabKey === null ? storedKeys() : [tabKey, ...storedKeys()]
  for (const key of keys) {
    const proved = await proveWith(key)
    if (proved === null) continue
    session = proved
    await confirm(proved)
    return proved
  }
  throw new Problem(401, { problem: 'not_in', title: 'the service does not know this browser', hint: 'nexus web' })
}

/** Null: the key is not known there. */
async function proveWith(key: Key): Promise<Session | null> {
  const nonce = hex(crypto.getRandomValues(new Uint8Array(16)))
  const response = await ask(`/v1/web/proof?key=${key.id}&nonce=${nonce}`)
  if (response.status === 401) return null
  if (!response.ok) throw await problemOf(response)
  const { challenge, proof } = await answered<Proof>(response)
  const expected = hmac(key.key, `nexus service\n${key.at}\n${nonce}\n${String(challenge)}`)
  if (isSame(expected, String(proof))) return { key, challenge }
  throw new Problem(0, {
    problem: 'unproved',
    title: 'another program answers at this address',
    why: 'it could not prove that it is nexus, and was sent no secret',
    hint: 'nexus status',
  })
}

/** Tells the service that its proof was taken; it may have new keys for us. */
async function confirm(proved: Session): Promise<void> {
  const response = await ask('/v1/web/keys', { method: 'POST', headers: { authorization: `Nexus ${textOf(proved)}` } })
  if (!response.ok) {
    session = null
    throw await problemOf(response)
  }
  const { tab_id, stored_id } = await answered<NewKeys>(response)
  if (isKeyId(tab_id)) tabKey = derivedKey(proved, 'tab', tab_id)
  if (isKeyId(stored_id)) keep(derivedKey(proved, 'stored', stored_id))
}

/** A further key, made of the key that this browser has: a program that relays the answer learns its id alone. */
function derivedKey({ key, challenge }: Session, kind: 'tab' | 'stored', id: string): Key {
  return { id, key: hmac(key.key, `nexus ${kind} key\n${key.at}\n${id}\n${challenge}`), at: key.at }
}

const isKeyId = (id: unknown): id is string => typeof id === 'string' && /^[0-9a-f]{16}$/.test(id)

async function ask(path: string, init: RequestInit = {}): Promise<Response> {
  try {
    return await fetch(path, { ...init, credentials: 'omit', cache: 'no-store', signal: AbortSignal.timeout(PROOF_TIMEOUT_MS) })
  } catch {
    throw unreachable()
  }
}

async function answered<T>(response: Response): Promise<T> {
  try {
    return (await response.json()) as T
  } catch {
    throw unreachable()
  }
}

function storedKeys(): Key[] {
  try {
    const keys: unknown = JSON.parse(localStorage.getItem(STORED_KEYS) ?? '[]')
    return Array.isArray(keys) ? keys.filter(isKey) : []
  } catch {
    return []
  }
}

function isKey(value: unknown): value is Key {
  if (typeof value !== 'object' || value === null) return false
  return ['id', 'key', 'at'].every((name) => typeof (value as Record<string, unknown>)[name] === 'string')
}

function keep(key: Key): void {
  const others = storedKeys().filter(({ id }) => id !== key.id)
  localStorage.setItem(STORED_KEYS, JSON.stringify([key, ...others].slice(0, MAX_STORED_KEYS)))
}
