// Where the page is, from the part of the address behind the #.
import { Store } from './state/store'

export interface Route {
  path: string[]
  query: URLSearchParams
}

function read(): Route {
  const text = window.location.hash.replace(/^#\/?/, '')
  const [path = '', query = ''] = text.split('?', 2)
  return { path: path.split('/').filter((part) => part !== '').map(decode), query: new URLSearchParams(query) }
}

function decode(part: string): string {
  try {
    return decodeURIComponent(part)
  } catch {
    return part
  }
}

export const route = new Store<Route>(read())

export function startRoute(): void {
  window.addEventListener('hashchange', () => {
    route.set(read())
    window.scrollTo(0, 0)
  })
}

export function go(to: string): void {
  window.location.hash = to
}

/** Another query on the same page; going back does not step through each letter typed. */
export function replaceQuery(query: URLSearchParams): void {
  const path = window.location.hash.split('?', 1)[0] ?? '#/'
  const text = query.toString()
  window.history.replaceState(null, '', text === '' ? path : `${path}?${text}`)
  route.set(read())
}

export const jobLink = (id: string) => `#/jobs/${id}`
export const sweepLink = (name: string) => `#/sweeps/${encodeURIComponent(name)}`
