// Requests to the service. Every failure becomes a Problem with words to show.

/** What the service says when it cannot do something. */
export interface ProblemBody {
  problem: string
  title: string
  why?: string | null
  hint?: string | null
  field?: string
  value?: string
  want?: string
}

export class Problem extends Error {
  readonly status: number
  readonly body: ProblemBody

  constructor(status: number, body: ProblemBody) {
    super(body.title)
    this.status = status
    this.body = body
  }

  /** The service could not be reached at all. */
  get unreachable(): boolean {
    return this.status === 0
  }
}

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
  let response: Response
  try {
    response = await fetch(path, { credentials: 'same-origin', ...init })
  } catch (error) {
    if (error instanceof DOMException && error.name === 'AbortError') throw error
    throw new Problem(0, {
      problem: 'unreachable',
      title: 'the service does not answer',
      why: 'it is stopped, or the line to it is cut',
      hint: 'nexus start',
    })
  }
  if (response.ok) return response
  if (response.status === 401) onLoggedOut()
  throw new Problem(response.status, await problemBody(response))
}

async function problemBody(response: Response): Promise<ProblemBody> {
  try {
    const body: unknown = await response.json()
    if (typeof body === 'object' && body !== null && 'title' in body) return body as ProblemBody
  } catch {
    // A proxy's page, or half an answer: said below.
  }
  return { problem: 'answer', title: `the service answered with ${response.status}`, hint: 'nexus doctor' }
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
