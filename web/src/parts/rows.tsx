// Rows of a long list: only those on the screen are in the document. All have one height.
import type { ComponentChildren, CSSProperties, JSX, VNode } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'

interface Props<T> {
  rows: T[]
  rowHeight: number
  label: string
  /** Changes with everything but the row itself that a row is drawn from: rows are drawn anew only then. */
  version?: unknown
  /** The place of a row that is drawn wherever the list is scrolled to: the one in the hand. */
  keep?: number | undefined
  /** Shown below the last row: more to come, or the end. */
  note?: ComponentChildren
  onRange?: (first: number, last: number) => void
  children: (row: T, index: number, style: CSSProperties) => VNode
  scroller?: { current: HTMLDivElement | null }
}

const BEYOND = 10

interface Drawn<T> {
  row: T
  index: number
  node: VNode
}

export function Rows<T extends { id: string }>({ rows, rowHeight, label, version, keep, note, onRange, children, scroller }: Props<T>): JSX.Element {
  const own = useRef<HTMLDivElement>(null)
  const [range, setRange] = useState<[number, number]>([0, 40])
  const measured = useRef<[number, number]>([0, 40])

  const measure = () => {
    const element = own.current
    if (!element) return
    const first = Math.floor(element.scrollTop / rowHeight)
    const last = Math.ceil((element.scrollTop + element.clientHeight) / rowHeight)
    // In steps of a few rows: scrolling draws anew only when a step is passed.
    const next: [number, number] = [Math.max(0, first - (first % 5) - BEYOND), last + (5 - (last % 5)) + BEYOND]
    if (next[0] === measured.current[0] && next[1] === measured.current[1]) return
    measured.current = next
    setRange(next)
    onRange?.(first, last)
  }

  useLayoutEffect(() => {
    if (scroller) scroller.current = own.current
    measure()
  }, [rowHeight])

  useEffect(() => {
    const element = own.current
    if (!element) return
    const sizes = new ResizeObserver(measure)
    sizes.observe(element)
    return () => sizes.disconnect()
  }, [rowHeight])

  // A row that is given as the very node of before is not compared again: scrolling costs only the rows that are new.
  const cache = useRef<{ key: unknown; drawn: Map<string, Drawn<T>> }>({ key: null, drawn: new Map() })
  const key = JSON.stringify([rowHeight, version ?? null])
  const before = cache.current.key === key ? cache.current.drawn : new Map<string, Drawn<T>>()
  const drawn = new Map<string, Drawn<T>>()
  const draw = (index: number) => {
    const row = rows[index]
    if (row === undefined) return
    const known = before.get(row.id)
    const same = known !== undefined && known.row === row && known.index === index
    const node = same ? known.node : children(row, index, { top: `${index * rowHeight}px`, height: `${rowHeight}px` })
    drawn.set(row.id, { row, index, node })
  }
  for (let index = range[0]; index < Math.min(range[1], rows.length); index++) draw(index)
  if (keep !== undefined && (keep < range[0] || keep >= range[1])) draw(keep)
  cache.current = { key, drawn }
  const height = rows.length * rowHeight
  return (
    <div class="rows-scroll" ref={own} role="table" aria-label={label} aria-rowcount={rows.length} onScroll={measure}>
      <div class="rows-space" role="rowgroup" style={{ height: `${height + (note ? 44 : 0)}px` }}>
        {[...drawn.values()].map((one) => one.node)}
        {note && <div class="row-note" style={{ top: `${height}px` }}>{note}</div>}
      </div>
    </div>
  )
}
