// The last quarter of an hour of each GPU, for the charts.
import { readPast } from '../api/calls'
import { listen } from './live'
import { Store } from './store'

export interface Past {
  /** Seconds, as the charts count. */
  times: number[]
  load: (number | null)[]
  usedMib: (number | null)[]
}

const KEPT_SECONDS = 15 * 60

const pasts = new Map<string, Past>()
/** Rises with each reading. */
export const readingsVersion = new Store(0)

const keyOf = (machine: string, index: number) => `${machine}:${index}`

export function pastOf(machine: string, index: number): Past {
  return pasts.get(keyOf(machine, index)) ?? { times: [], load: [], usedMib: [] }
}

export function startReadings(): void {
  listen((event) => {
    if (event.kind === 'missed') void readAll()
    if (event.kind !== 'readings') return
    for (const gpu of event.gpus) {
      const past = pastOf(event.machine, gpu.index)
      append(past, event.at / 1000, gpu.load_percent, gpu.used_mib)
      pasts.set(keyOf(event.machine, gpu.index), past)
    }
    readingsVersion.update((version) => version + 1)
  })
}

function append(past: Past, at: number, load: number | null, usedMib: number | null): void {
  if (at <= (past.times.at(-1) ?? 0)) return
  past.times.push(at)
  past.load.push(load)
  past.usedMib.push(usedMib)
  while ((past.times[0] ?? at) < at - KEPT_SECONDS) {
    past.times.shift()
    past.load.shift()
    past.usedMib.shift()
  }
}

async function readAll(): Promise<void> {
  try {
    for (const { machine, index, points } of await readPast()) {
      const past: Past = { times: [], load: [], usedMib: [] }
      for (const [at, load, used] of points) append(past, at / 1000, load, used)
      pasts.set(keyOf(machine, index), past)
    }
    readingsVersion.update((version) => version + 1)
  } catch {
    // The charts fill with what comes.
  }
}
