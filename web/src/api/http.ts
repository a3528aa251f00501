// Requests to the service. Every failure becomes a Problem with words to show.

import { Problem, problemOf, unreachable } from './problem'
import { authorization, forgetSession, prove } from './session'

export { Problem, type ProblemBody } from './problem'

type Query = Record<string, string | number | boolean | undefined>

export function address(path: string, query: Query = {}): string {
  const given = Object.entries(query).filter((entry): entry is [string, string | number | boolean] => {
    return entry[1] !== undefined
  })
  const text = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  return text === '' ? path : `${path}?${text}`
}

/** Told of every answer that says nobody is logged in. */
let onLoggedOut: () => void = () => {}

export function whenLoggedOut(then: () => void): void {
  onLoggedOut = then
}

export async function request(path: string, init?: RequestInit): Promise<Response> {
  try {
    let response = await send(path, init)
    if (response.status === 401) {
      // The session is of a service that has ended, or an hour old. What was refused was not done: it is sent again.
      await prove()
      response = await send(path, init)
    }
    if (response.ok) return response
    throw await problemOf(response)
  } catch (error) {
    if (error instanceof Problem && error.status === 401) onLoggedOut()
    throw error
  }
}

async function send(path: string, init: RequestInit = {}): Promise<Response> {
  const headers = { ...(init.headers as Record<string, string> | undefined), ...(await authorization()) }
  try {
    return await fetch(path, { ...init, headers, credentials: 'omit' })
  } catch (error) {
    if (isAborted(error)) throw error
    forgetSession()
    throw unreachable()
  }
}

export async function get<T>(path: string, query?: Query, signal?: AbortSignal): Promise<T> {
  const response = await request(address(path, query), signal ? { signal } : undefined)
  return (await response.json()) as T
}

export async function post<T>(path: string, body?: unknown, query?: Query, signal?: AbortSignal): Promise<T> {
  const init: RequestInit = { method: 'POST' }
  if (body !== undefined) {
    init.body = JSON.stringify(body)
    init.headers = { 'content-type': 'application/json' }
  }
  if (signal) init.signal = signal
  const response = await request(address(path, query), init)
  return (await response.json()) as T
}

export interface Page<T> {
  rows: T[]
  /** Where the next page begins; none after the last. */
  next: string | null
}

export async function getPage<T>(path: string, query: Query, signal?: AbortSignal): Promise<Page<T>> {
  const response = await request(address(path, query), signal ? { signal } : undefined)
  return { rows: (await response.json()) as T[], next: response.headers.get('nexus-cursor') }
}

export function isAborted(error: unknown): boolean {
  return error instanceof DOMException && error.name === 'AbortError'
}
