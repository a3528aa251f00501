// What every page shows of the service: its status and its facts, read once for all of them.
import { readService, readStatus } from '../api/calls'
import { isAborted } from '../api/http'
import type { Gpu, Machine, Service, Status } from '../api/service'
import { listen } from './live'
import { Store } from './store'
import { Pace } from './use'

export const status = new Store<Status | null>(null)
export const service = new Store<Service | null>(null)

export function startStatus(): void {
  const pace = new Pace(async () => {
    try {
      status.set(await readStatus())
    } catch (error) {
      // The banner says that the service is away; what was known stays.
      if (isAborted(error)) return
    }
  })
  const facts = new Pace(async () => {
    try {
      service.set(await readService())
    } catch {
      // As above.
    }
  })
  listen((event) => {
    if (event.kind === 'readings') takeReadings(event.machine, event.gpus)
    else pace.want()
    if (event.kind === 'missed' || event.kind === 'machine') facts.want()
  })
  pace.want()
  facts.want()
}

interface Reading {
  index: number
  load_percent: number | null
  used_mib: number | null
  temperature_c: number | null
  power_w: number | null
}

/** New readings go into the status that is shown, without asking for all of it. */
function takeReadings(machine: string, readings: Reading[]): void {
  const known = status.get()
  if (known === null) return
  const byIndex = new Map(readings.map((reading) => [reading.index, reading]))
  const read = (gpu: Gpu): Gpu => ({ ...gpu, ...byIndex.get(gpu.index) })
  const machines = known.machines.map((one: Machine) =>
    one.name === machine ? { ...one, gpus: one.gpus.map(read) } : one,
  )
  status.set({ ...known, machines })
}
