// A clock that ticks each second, for run times and "3m ago". It stops while the page is hidden.
import { Store, useStore } from './store'

const seconds = new Store(Math.floor(Date.now() / 1000))

export function startClock(): void {
  window.setInterval(() => {
    if (!document.hidden) seconds.set(Math.floor(Date.now() / 1000))
  }, 1000)
}

export function useNow(): Date {
  return new Date(useStore(seconds) * 1000)
}
