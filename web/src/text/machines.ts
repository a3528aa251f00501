// Machines of the pool in words: how they stand, what they have, where jobs may go.
import type { JobRequest } from '../api/jobs'
import type { Machine, MachineState } from '../api/service'
import { gpuModel } from './words'

/** The class of jobs that name none. */
export const USUAL_CLASS = 'default'

/** It takes no new jobs, whatever of it is free. */
export function isClosed(machine: Machine): boolean {
  return machine.pool !== undefined && machine.pool.state !== 'ready'
}

/** What it has is known; one that never answered has nothing to show. */
export function isReached(machine: Machine): boolean {
  return machine.cpus > 0 || machine.gpus.length > 0
}

/** `unreachable: it does not answer`; none of one that takes jobs. */
export function standing(machine: Machine): string | null {
  const pool = machine.pool
  if (pool === undefined || pool.state === 'ready') return null
  return pool.detail === null ? STATES[pool.state] : `${pool.state.replaceAll('-', ' ')}: ${pool.detail}`
}

/** The states, where nothing more is told. */
const STATES: Record<MachineState, string> = {
  ready: 'ready',
  connecting: 'connecting',
  unreachable: 'unreachable',
  'setting-up': 'being set up',
  'not-set-up': 'not set up',
  paused: 'paused: nothing new starts there',
  quarantined: 'quarantined',
  leaving: 'leaving: it goes when its last job has ended',
}

/** `2 × RTX 3090, 24 GB`; those of several models one after the other. A number stays with what it counts. */
export function gpuKinds(machine: Machine): string {
  const kinds = new Map<string, number>()
  // Partitions of a cluster overlap: the largest count of a kind is nearest to the truth.
  for (const { kind, total } of (machine.pool?.slurm?.partitions ?? []).flatMap((partition) => partition.gpus)) {
    const name = kind === '' ? 'GPU' : kind
    kinds.set(name, Math.max(kinds.get(name) ?? 0, total))
  }
  for (const gpu of machine.gpus) {
    const kind = `${gpu.simulated ? 'simulated' : gpuModel(gpu.name)}, ${Math.round(gpu.memory_mib / 1024)}\u00a0GB`
    kinds.set(kind, (kinds.get(kind) ?? 0) + 1)
  }
  return [...kinds].map(([kind, count]) => `${count}\u00a0×\u00a0${kind}`).join(' + ')
}

/** Every class that a machine is of, the usual one first. */
export function classesOf(machines: readonly Machine[]): string[] {
  const named = machines.map((machine) => machine.pool?.class ?? null).filter((name) => name !== null && name !== USUAL_CLASS)
  return [USUAL_CLASS, ...[...new Set(named as string[])].sort()]
}

/** Whether a job may run there, as far as it says where. */
export function isMeant(machine: Machine, request: JobRequest): boolean {
  if (request.machine) return machine.name === request.machine
  return machine.pool?.class === (request.class ?? USUAL_CLASS)
}
