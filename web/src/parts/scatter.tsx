// A value of a sweep's jobs against a parameter, one colour for each value of another.
import type { JSX } from 'preact'
import { useMemo, useState } from 'preact/hooks'
import type uPlot from 'uplot'
import type { Job } from '../api/jobs'
import type { Sweep } from '../api/sweeps'
import { useStore } from '../state/store'
import { isDark } from '../state/theme'
import { asNumber, compareValues } from '../text/numbers'
import { Chart } from './chart'

/** Told apart in both themes and by those who do not see red and green. */
const COLOURS = {
  light: ['#1f5fd0', '#c2571a', '#1a7a47', '#8b3fa8', '#0f7f92', '#a83253', '#7a6a00', '#4f5b66'],
  dark: ['#7da6f7', '#f0a06a', '#6fce9d', '#c99be0', '#62c4d6', '#f191ab', '#d6c24a', '#a7b3bf'],
}

interface Group {
  name: string
  points: [number, number][]
}

const RUNTIME = 'runtime (s)'

function valueOf(job: Job, name: string): number | null {
  if (name === RUNTIME) return job.state === 'completed' ? job.runtime_seconds : null
  return asNumber(job.extracted?.[name])
}

export function Scatter({ sweep, jobs }: { sweep: Sweep; jobs: Job[] }): JSX.Element | null {
  const values = [...sweep.extract, RUNTIME]
  const numeric = sweep.params.filter((name) => jobs.some((job) => asNumber(job.params?.[name]) !== null))
  const [value, setValue] = useState(values[0] ?? RUNTIME)
  const [param, setParam] = useState(numeric[0] ?? '')
  const [by, setBy] = useState('')
  const [lines, setLines] = useState(true)
  const [logX, setLogX] = useState(() => spansDecades(jobs.map((job) => asNumber(job.params?.[numeric[0] ?? '']))))
  const [logY, setLogY] = useState(false)
  const dark = useStore(isDark)
  const across = numeric.includes(param) ? param : (numeric[0] ?? '')

  const groups = useMemo(() => grouped(jobs, value, across, by, logX, logY), [jobs, value, across, by, logX, logY])
  const data = useMemo(() => aligned(groups), [groups])
  if (numeric.length === 0) return null
  const colours = dark ? COLOURS.dark : COLOURS.light
  const shape = JSON.stringify([value, across, by, lines, logX, logY, groups.map((group) => group.name)])
  const points = groups.reduce((sum, group) => sum + group.points.length, 0)
  return (
    <section class="panel" aria-label="Chart">
      <div class="chart-tools">
        <Pick label="Value" value={value} values={values} onChange={setValue} />
        <Pick label="Against" value={across} values={numeric} onChange={setParam} />
        <Pick label="Colour by" value={by} values={['', ...sweep.params.filter((name) => name !== across)]} onChange={setBy} />
        <label class="check"><input type="checkbox" checked={lines} onChange={() => setLines(!lines)} />Lines</label>
        <label class="check"><input type="checkbox" checked={logX} onChange={() => setLogX(!logX)} />Log x</label>
        <label class="check"><input type="checkbox" checked={logY} onChange={() => setLogY(!logY)} />Log y</label>
      </div>
      {points === 0
        ? <p class="faint" style={{ padding: '10px 14px 16px' }}>No job has a value for this yet.</p>
        : (
          <Chart
            data={data}
            height={280}
            shape={shape}
            label={`${value} against ${across}, ${points} points`}
            options={(_width, colour) => scatterOptions({ groups, colours, lines, logX, logY, across, value, colour })}
          />
        )}
      {by !== '' && points > 0 && (
        <div class="chart-legend">
          {groups.map((group, index) => <span key={group.name}><i style={{ background: colours[index % colours.length] }} />{by} {group.name}</span>)}
        </div>
      )}
    </section>
  )
}

function Pick({ label, value, values, onChange }: { label: string; value: string; values: string[]; onChange: (value: string) => void }): JSX.Element {
  return (
    <div class="field">
      <label>
        <span class="label">{label}</span>
        <select value={value} onChange={(event) => onChange(event.currentTarget.value)}>
          {values.map((one) => <option key={one} value={one}>{one === '' ? 'nothing' : one}</option>)}
        </select>
      </label>
    </div>
  )
}

function spansDecades(numbers: (number | null)[]): boolean {
  const positive = numbers.filter((number): number is number => number !== null && number > 0)
  return positive.length === numbers.length && positive.length > 1 && Math.max(...positive) / Math.min(...positive) >= 50
}

function grouped(jobs: Job[], value: string, param: string, by: string, logX: boolean, logY: boolean): Group[] {
  const groups = new Map<string, Group>()
  for (const job of jobs) {
    const x = asNumber(job.params?.[param])
    const y = valueOf(job, value)
    // Nothing below zero has a place on a logarithmic axis.
    if (x === null || y === null || (logX && x <= 0) || (logY && y <= 0)) continue
    const name = by === '' ? '' : (job.params?.[by] ?? '')
    const group = groups.get(name) ?? { name, points: [] }
    group.points.push([x, y])
    groups.set(name, group)
  }
  for (const group of groups.values()) group.points.sort((a, b) => a[0] - b[0])
  return [...groups.values()].sort((a, b) => compareValues(a.name, b.name))
}

/** uPlot wants one row of x for all; a repeated x stands there as often as some group needs it. For each group the
 * points, then the means at each x, which the line goes through. */
function aligned(groups: Group[]): uPlot.AlignedData {
  const most = new Map<number, number>()
  for (const group of groups) {
    const here = new Map<number, number>()
    for (const [x] of group.points) here.set(x, (here.get(x) ?? 0) + 1)
    for (const [x, count] of here) most.set(x, Math.max(most.get(x) ?? 0, count))
  }
  const xs = [...most.keys()].sort((a, b) => a - b).flatMap((x) => Array<number>(most.get(x) ?? 1).fill(x))
  const pointsOf = (group: Group) => {
    let next = 0
    return xs.map((x) => {
      const point = group.points[next]
      if (!point || point[0] !== x) return undefined
      next++
      return point[1]
    })
  }
  const meansOf = (group: Group) => xs.map((x, at) => (xs[at - 1] === x ? undefined : mean(group.points.filter((point) => point[0] === x))))
  return [xs, ...groups.flatMap((group) => [pointsOf(group), meansOf(group)])]
}

function mean(points: [number, number][]): number | undefined {
  if (points.length === 0) return undefined
  return points.reduce((sum, point) => sum + point[1], 0) / points.length
}

interface Look {
  groups: Group[]
  colours: string[]
  lines: boolean
  logX: boolean
  logY: boolean
  across: string
  value: string
  colour: (name: string) => string
}

function scatterOptions({ groups, colours, lines, logX, logY, across, value, colour }: Look): Omit<uPlot.Options, 'width' | 'height'> {
  const axis = { stroke: colour('--soft'), font: '11px system-ui', labelFont: '12px system-ui', grid: { stroke: colour('--line'), width: 1 }, ticks: { stroke: colour('--line'), width: 1 }, values: (_plot: uPlot, splits: (number | null)[]) => splits.map(axisText) }
  return {
    padding: [12, 18, 4, 4],
    legend: { show: false },
    cursor: { drag: { x: false, y: false } },
    scales: { x: { time: false, distr: logX ? 3 : 1, range: logX ? paddedLog : padded }, y: { distr: logY ? 3 : 1, range: logY ? paddedLog : padded } },
    axes: [{ ...axis, label: across, size: 30, labelSize: 22 }, { ...axis, label: value, size: 56, labelSize: 22 }],
    series: [
      {},
      ...groups.flatMap((_group, index): uPlot.Series[] => {
        const stroke = colours[index % colours.length] ?? '#888'
        const dots: uPlot.Series = { stroke, paths: () => null, points: { show: true, size: 7, fill: stroke, stroke } }
        return [dots, { show: lines, stroke, width: 1.5, spanGaps: true, points: { show: false } }]
      }),
    ],
  }
}

function paddedLog(_plot: uPlot, min: number, max: number): [number, number] {
  return [min / 1.3, max * 1.3]
}

/** Short, and never 0 for what is only small. uPlot leaves out some places of a logarithmic axis. */
function axisText(number: number | null): string {
  if (number === null) return ''
  const size = Math.abs(number)
  if (size !== 0 && (size < 0.001 || size >= 1e6)) return number.toExponential(0)
  return String(Number(number.toPrecision(6)))
}

/** A little room around the points, even where all are alike. */
function padded(_plot: uPlot, min: number, max: number): [number, number] {
  const room = max > min ? (max - min) * 0.06 : Math.abs(max) * 0.1 || 1
  return [min - room, max + room]
}
