// A cluster at a glance: what it has, how many jobs of ours are there, and what those that wait there wait for.
import type { JSX } from 'preact'
import type { Job } from '../api/jobs'
import type { InSlurm, Machine } from '../api/service'
import { gpuKinds } from '../text/machines'
import { waitingThere } from '../text/waiting'
import { capital, counted, printable } from '../text/words'

export function ClusterCard({ machine, slurm, jobs }: { machine: Machine; slurm: InSlurm; jobs: Job[] }): JSX.Element {
  const kinds = gpuKinds(machine)
  return (
    <article class="gpu panel cluster" aria-label={`Slurm of ${machine.name}`}>
      <header>
        <strong>Slurm {slurm.version !== null && printable(slurm.version)}</strong>
        <span class="soft">{kinds === '' ? 'no GPU' : printable(kinds)}</span>
      </header>
      <ul class="gpu-who">
        <li>{counted(slurm.submitted, 'job')} of ours, {slurm.running} running</li>
        {waitingThere(jobs).map(([why, count]) => <li key={why} class="soft">{counted(count, 'job')}: {capital(printable(why))}</li>)}
      </ul>
    </article>
  )
}
