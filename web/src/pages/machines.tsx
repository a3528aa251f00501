// Machines and the service itself: plain facts, and what is wrong with them.
import type { JSX } from 'preact'
import { readMachines } from '../api/calls'
import type { Machine, Service } from '../api/service'
import { service, status } from '../state/status'
import { useStore } from '../state/store'
import { useRead } from '../state/use'
import { isClosed } from '../text/machines'
import { bytes, capital, counted, gpuModel, memory, printable } from '../text/words'
import { Ago, Clock, ProblemBox } from '../parts/bits'
import { PoolTable } from '../parts/pool'
import { PoolDialogs } from '../parts/pool-dialogs'
import { gpuState, obstacleWords } from '../text/place'

const LITTLE_DISK = 5 * 1024 ** 3

export function MachinesPage(): JSX.Element {
  const now = useStore(status)
  const facts = useStore(service)
  // What a status tells of the pool, of one machine too: it may be paused.
  const { data, problem } = useRead('machines', readMachines, (event) => event.kind !== 'readings')
  const machines = data ?? now?.machines ?? []
  const pool = machines.length > 1 || machines.some(isClosed)
  return (
    <div class="page scrolls">
      <div class="head"><h1>Machines</h1></div>
      {problem && data === null && <ProblemBox problem={problem} />}
      {pool && <PoolTable machines={machines} />}
      <p class="soft pool-more">{pool ? 'Another' : 'More'} over ssh: <code>nexus machine add [user@]host</code></p>
      {machines.filter((machine) => !pool || machine.gpus.length > 0 || machine.error !== null).map((machine) => <MachineBox key={machine.name} machine={machine} />)}
      {facts && <ServiceBox facts={facts} diskFree={now?.disk_free_bytes ?? facts.disk_free_bytes} />}
      <PoolDialogs />
    </div>
  )
}

function MachineBox({ machine }: { machine: Machine }): JSX.Element {
  return (
    <section class="section" aria-label={`Machine ${machine.name}`}>
      <div class="section-head"><h2>{machine.name}</h2><span class="faint">{counted(machine.cpus, 'CPU')}, {counted(machine.gpus.length, 'GPU')}</span></div>
      {machine.error !== null && <div class="problem-box" role="alert"><strong>GPUs cannot be read</strong><span>{printable(machine.error)}</span><span class="soft">Try: <code>nexus doctor</code></span></div>}
      <div class="panel table-box">
        <table class="plain-table">
          <thead><tr><th>GPU</th><th>Model</th><th>Memory</th><th>State</th><th>UUID</th></tr></thead>
          <tbody>
            {machine.gpus.map((gpu) => {
              const state = gpuState(gpu)
              const words = { free: isClosed(machine) ? `machine ${machine.pool?.state}` : 'available', busy: counted(gpu.jobs.length, 'job'), paused: 'paused', outside: obstacleWords(gpu) ?? '', unusable: obstacleWords(gpu) ?? '' }
              return (
                <tr key={gpu.index}>
                  <td data-label="GPU">{gpu.index}</td>
                  <td data-label="Model">{gpu.simulated ? 'simulated' : gpuModel(gpu.name)}</td>
                  <td data-label="Memory">{memory(gpu.memory_mib)}</td>
                  <td data-label="State">{capital(printable(words[state]))}</td>
                  <td data-label="UUID" class="mono faint">{printable(gpu.uuid)}</td>
                </tr>
              )
            })}
          </tbody>
        </table>
      </div>
    </section>
  )
}

function ServiceBox({ facts, diskFree }: { facts: Service; diskFree: number }): JSX.Element {
  const containment = facts.containment === 'cgroup' ? 'each job in a cgroup of its own' : 'held together by their session'
  return (
    <section class="section" aria-label="Service">
      <div class="section-head"><h2>Service</h2></div>
      {facts.gpu_error !== null && <div class="problem-box" role="alert"><strong>GPUs cannot be read</strong><span>{printable(facts.gpu_error)}</span><span class="soft">Try: <code>nexus doctor</code></span></div>}
      {diskFree < LITTLE_DISK && <div class="problem-box" role="alert"><strong>The disk is nearly full</strong><span>{bytes(diskFree)} are free. When it is full, no new jobs are taken.</span></div>}
      {(facts.jobs_file_refused ?? []).length > 0 && (
        <div class="problem-box" role="alert">
          <strong>Lines of jobs.txt that were not taken</strong>
          {facts.jobs_file_refused?.map((line) => <span key={line}>{printable(line)}</span>)}
        </div>
      )}
      <div class="panel boxed">
        <dl class="facts">
          <dt>Version</dt><dd>{facts.version}</dd>
          <dt>Host</dt><dd>{printable(facts.host)}</dd>
          <dt>Process</dt><dd>pid {facts.pid}, started <Clock time={facts.started_at} /> (<Ago time={facts.started_at} />)</dd>
          <dt>Home</dt><dd class="mono">{printable(facts.home)}</dd>
          <dt>Logs</dt><dd class="mono">{printable(facts.log_dir)}</dd>
          <dt>Disk</dt><dd>{bytes(diskFree)} free</dd>
          <dt>Database</dt><dd>{facts.database === 'wal' ? 'on a local disk' : 'on a network file system'}</dd>
          <dt>GPU driver</dt>
          <dd>{facts.gpu_driver === null ? (facts.simulated_gpus > 0 ? `none: ${counted(facts.simulated_gpus, 'simulated GPU')}` : 'none') : `${printable(facts.gpu_driver)}, read by ${facts.gpu_source}`}</dd>
          <dt>Processes</dt><dd>{containment}{facts.memory_limits === true ? ', memory limits are enforced' : ''}</dd>
        </dl>
      </div>
    </section>
  )
}
