// The machines of the pool in a table, with what can be done to each.
import type { JSX } from 'preact'
import { actOnMachine } from '../api/calls'
import type { InPool, Machine } from '../api/service'
import { attempt } from '../state/toasts'
import { classesOf, gpuKinds } from '../text/machines'
import { capital, counted, printable } from '../text/words'
import { Clock, JobId } from './bits'
import { Icon } from './icons'
import { Hint } from './machine-bits'
import { Menu, type MenuItem } from './menu'
import { moveMachine, removeMachine } from './pool-dialogs'

const JOBS_NAMED = 8

/** A machine with its standing, which lists of the pool always tell. */
type Member = Machine & { pool: InPool }

export function PoolTable({ machines }: { machines: Machine[] }): JSX.Element {
  const members = machines.filter((machine): machine is Member => machine.pool !== undefined)
  const classes = classesOf(machines)
  return (
    <section class="section" aria-label="Pool">
      <div class="panel table-box">
        <table class="plain-table pool-table">
          <thead><tr><th>Machine</th><th>State</th><th>Class</th><th>GPUs</th><th>CPUs</th><th>Jobs</th><th>Address</th><th /></tr></thead>
          <tbody>{members.map((machine) => <MemberRow key={machine.name} machine={machine} classes={classes} />)}</tbody>
        </table>
      </div>
    </section>
  )
}

function MemberRow({ machine, classes }: { machine: Member; classes: string[] }): JSX.Element {
  const { pool } = machine
  const told = [pool.hostname, pool.home].filter((text) => text !== null).join(', ')
  return (
    <tr>
      <td data-label="Machine"><strong title={printable(told)}>{printable(machine.name)}</strong></td>
      <td data-label="State"><StateCell pool={pool} /></td>
      <td data-label="Class">{pool.class === null ? <span class="faint">none yet</span> : printable(pool.class)}</td>
      <td data-label="GPUs">{gpuKinds(machine)}</td>
      <td data-label="CPUs">{machine.cpus > 0 && machine.cpus}</td>
      <td data-label="Jobs"><JobLinks ids={pool.jobs} /></td>
      <td data-label="Address">{pool.address === null ? <span class="faint own">{pool.slurm ? 'Slurm, from the service\'s host' : 'the service\'s host'}</span> : <code>{printable(pool.address)}</code>}</td>
      <td data-label=""><span class="end"><PauseButton machine={machine} /><Menu label={`More for ${machine.name}`} items={menuFor(machine, classes)} /></span></td>
    </tr>
  )
}

function StateCell({ pool }: { pool: InPool }): JSX.Element {
  return (
    <span class="standing">
      <span class={`machine-state ${pool.state}`}>{capital(pool.state.replaceAll('-', ' '))}{pool.state === 'unreachable' && pool.since !== null && <> since <Clock time={pool.since} /></>}</span>
      {pool.detail !== null && <span>{capital(printable(pool.detail))}</span>}
      <Hint text={pool.hint} />
    </span>
  )
}

function JobLinks({ ids }: { ids: string[] }): JSX.Element {
  return (
    <span class="ids">
      {ids.slice(0, JOBS_NAMED).map((id) => <JobId key={id} id={id} />)}
      {ids.length > JOBS_NAMED && <span class="soft">and {ids.length - JOBS_NAMED} more</span>}
    </span>
  )
}

const standsStill = (machine: Member) => machine.pool.state === 'paused' || machine.pool.state === 'quarantined'

const pause = (machine: Member) => {
  const go = machine.pool.jobs.length === 0 ? '' : `, ${counted(machine.pool.jobs.length, 'job')} on it go on`
  return attempt(() => actOnMachine('pause', machine.name), `${machine.name} takes no new jobs${go}`)
}
const resume = (machine: Member) => attempt(() => actOnMachine('resume', machine.name), `${machine.name} takes jobs again${machine.pool.state === 'unreachable' ? ' once it is reached' : ''}`)

function PauseButton({ machine }: { machine: Member }): JSX.Element {
  const still = standsStill(machine)
  const label = `${still ? 'Resume' : 'Pause'} ${machine.name}`
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={() => (still ? resume(machine) : pause(machine))}>
      <Icon name={still ? 'play' : 'pause'} />
    </button>
  )
}

function menuFor(machine: Member, classes: string[]): MenuItem[] {
  const items: MenuItem[] = [{ label: 'Move to a class', icon: 'edit', run: () => moveMachine(machine.name, machine.pool.class, classes) }]
  // Whether it was paused before its line was lost is not told.
  if (machine.pool.state === 'unreachable') items.unshift({ label: 'Resume', icon: 'play', run: () => void resume(machine) })
  // The service's own host is always there.
  if (machine.pool.address !== null) items.push({ label: 'Remove', icon: 'trash', danger: true, run: () => void removeMachine(machine.name) })
  return items
}
