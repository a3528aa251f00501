// One GPU: how loaded it is and was, who is on it, and whether it takes jobs.
import type { JSX } from 'preact'
import type uPlot from 'uplot'
import { setGpuPaused } from '../api/calls'
import type { Job } from '../api/jobs'
import type { Gpu, GpuProcess, GpuShare, Machine } from '../api/service'
import { pastOf, readingsVersion } from '../state/readings'
import { useStore } from '../state/store'
import { attempt } from '../state/toasts'
import { isClosed } from '../text/machines'
import { gpuName, gpuState, obstacleWords, processWords } from '../text/place'
import { capital, firstLine, gpuModel, memory, printable } from '../text/words'
import { JobId, Meter, Runtime, level } from './bits'
import { Chart } from './chart'
import { Icon } from './icons'

const STATE_WORDS = { free: 'Available', busy: 'Busy', paused: 'Paused', outside: 'In use outside nexus', unusable: 'Takes no jobs' }

/** nvitop's border between yellow and red. */
const LOAD_HIGH = 75
const MEMORY_HIGH = 80

export function GpuCard({ machine, gpu, jobs }: { machine: Machine; gpu: Gpu; jobs: Map<string, Job> }): JSX.Element {
  const state = gpuState(gpu)
  // What is free of a machine that takes no jobs is not to be had.
  const closed = state === 'free' && isClosed(machine)
  const obstacle = obstacleWords(gpu)
  const model = gpu.simulated ? 'simulated' : gpuModel(gpu.name)
  const memoryPercent = gpu.used_mib === null ? null : (100 * gpu.used_mib) / Math.max(1, gpu.memory_mib)
  const others = gpu.processes.filter((process) => process.job === null)
  return (
    <article class={`gpu panel ${state}`} aria-label={gpuName(machine.name, gpu.index)}>
      <header>
        <strong>GPU {gpu.index}</strong>
        <span class={`gpu-state ${closed ? 'closed' : state}`}>{closed ? `Machine ${machine.pool?.state}` : STATE_WORDS[state]}</span>
        <PauseButton machine={machine.name} gpu={gpu} />
      </header>
      <div class="gpu-model soft">
        <span class="cut" title={printable(gpu.name)}>{model}, {Math.round(gpu.memory_mib / 1024)} GB</span>
        <span>{warmth(gpu)}</span>
      </div>
      {!gpu.simulated && <Figures gpu={gpu} memoryPercent={memoryPercent} />}
      {!gpu.simulated && <GpuChart machine={machine.name} gpu={gpu} />}
      <ul class="gpu-who">
        {gpu.paused && <li class="warn-text">Paused: takes no new job, running ones finish</li>}
        {obstacle !== null && gpu.obstacle?.kind !== 'in-use' && <li class="warn-text">{capital(printable(obstacle))}</li>}
        {gpu.jobs.map((id) => <JobOnGpu key={id} id={id} job={jobs.get(id)} share={gpu.shares?.find((share) => share.job === id)} />)}
        {others.map((process) => <Outsider key={process.pid} process={process} />)}
        {gpu.jobs.length === 0 && others.length === 0 && !gpu.paused && obstacle === null && <li class="faint">No job</li>}
      </ul>
    </article>
  )
}

function PauseButton({ machine, gpu }: { machine: string; gpu: Gpu }): JSX.Element {
  const name = gpuName(machine, gpu.index)
  const label = gpu.paused ? `Resume ${name}` : `Pause ${name}`
  const change = () => attempt(() => setGpuPaused(machine, gpu.index, !gpu.paused), gpu.paused ? `${name} takes jobs again` : `${name} takes no new jobs`)
  return (
    <button type="button" class="icon-button" aria-label={label} title={label} onClick={change}>
      <Icon name={gpu.paused ? 'play' : 'pause'} />
    </button>
  )
}

function warmth(gpu: Gpu): string {
  const parts = [gpu.temperature_c === null ? null : `${gpu.temperature_c} °C`, gpu.power_w === null ? null : `${gpu.power_w} W`]
  return parts.filter((text) => text !== null).join(', ')
}

function Figures({ gpu, memoryPercent }: { gpu: Gpu; memoryPercent: number | null }): JSX.Element {
  const load = gpu.load_percent
  return (
    <div class="gpu-figures">
      <div>
        <span class="figure-label"><i class="swatch one" />Load</span>
        <span class={`figure ${load === null ? '' : level(load, LOAD_HIGH)}`}>{load === null ? 'unknown' : `${load}%`}</span>
        <Meter percent={load} high={LOAD_HIGH} label="Load" />
      </div>
      <div>
        <span class="figure-label"><i class="swatch two" />Memory</span>
        <span class={`figure ${memoryPercent === null ? '' : level(memoryPercent, MEMORY_HIGH)}`}>
          {gpu.used_mib === null ? 'unknown' : `${memory(gpu.used_mib)} / ${memory(gpu.memory_mib)}`}
        </span>
        <Meter percent={memoryPercent} high={MEMORY_HIGH} label="Memory" />
      </div>
    </div>
  )
}

function GpuChart({ machine, gpu }: { machine: string; gpu: Gpu }): JSX.Element {
  useStore(readingsVersion)
  const past = pastOf(machine, gpu.index)
  const percent = past.usedMib.map((used) => (used === null ? null : (100 * used) / Math.max(1, gpu.memory_mib)))
  // Copies: the chart compares what it is given, and the readings grow in place.
  const data: uPlot.AlignedData = [[...past.times], [...past.load], percent]
  return (
    <Chart
      data={data}
      height={76}
      shape="gpu"
      label={`Load and memory of ${gpuName(machine, gpu.index)} over the last quarter of an hour`}
      options={(_width, colour) => ({
        padding: [5, 0, 5, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { range: (_plot, _min, max) => [max - 900, max] }, y: { range: [-3, 103] } },
        axes: [
          { show: false },
          {
            size: 30,
            stroke: colour('--faint'),
            font: '10px system-ui',
            splits: () => [0, 50, 100],
            grid: { stroke: colour('--line'), width: 1 },
            ticks: { show: false },
            gap: 2,
          },
        ],
        series: [
          {},
          { stroke: colour('--accent'), width: 1.5, fill: `${colour('--accent')}18`, points: { show: false }, spanGaps: false },
          { stroke: colour('--series-2'), width: 1.5, points: { show: false }, spanGaps: false },
        ],
      })}
    />
  )
}

function JobOnGpu({ id, job, share }: { id: string; job: Job | undefined; share: GpuShare | undefined }): JSX.Element {
  const parts = [
    share?.part != null ? `${share.part} GPU` : null,
    share?.vram_mib != null ? memory(share.vram_mib) : null,
  ].filter((text) => text !== null)
  return (
    <li>
      <JobId id={id} />
      {job ? <span class="cut" title={printable(job.command)}>{job.name === null ? <code>{firstLine(job.command)}</code> : printable(job.name)}</span> : <span class="faint">ending</span>}
      {parts.length > 0 && <span class="chip">{parts.join(', ')}</span>}
      <span class="soft when">{job && <Runtime job={job} />}</span>
    </li>
  )
}

function Outsider({ process }: { process: GpuProcess }): JSX.Element {
  return (
    <li class={process.foreign ? 'warn-text' : 'faint'}>
      <span class="cut" title={printable(processWords(process))}>{printable(processWords(process))}</span>
      {process.graphics && <span class="chip">draws only</span>}
      {!process.foreign && !process.graphics && <span class="chip">does not count</span>}
    </li>
  )
}
