// Dragging a row of a list to another place, by mouse or finger. Rows have one height, so a place is a division.
import { useRef, useState } from 'preact/hooks'

export interface Drag {
  from: number
  /** The gap it would fall into: 0 is before the first row. */
  gap: number
  /** Where the pointer is, in the list's own measure. */
  top: number
}

interface Wiring {
  rowHeight: number
  count: number
  scroller: { current: HTMLDivElement | null }
  onStart: () => void
  onDrop: (from: number, gap: number) => void
  onCancel: () => void
}

/** Near an edge the list scrolls by itself. */
const EDGE = 48
const STEP = 14

export function useDrag(wiring: Wiring): { drag: Drag | null; begin: (event: PointerEvent, index: number) => void } {
  const [drag, setDrag] = useState<Drag | null>(null)
  const latest = useRef(wiring)
  latest.current = wiring

  const begin = (event: PointerEvent, index: number) => {
    const box = latest.current.scroller.current
    if (!box || event.button !== 0) return
    event.preventDefault()
    const { rowHeight } = latest.current
    const grip = event.clientY - (box.getBoundingClientRect().top + index * rowHeight - box.scrollTop)
    let y = event.clientY
    let frame = 0
    let current: Drag = { from: index, gap: index, top: index * rowHeight }

    const place = () => {
      const { top, height } = box.getBoundingClientRect()
      if (y < top + EDGE) box.scrollTop -= STEP
      else if (y > top + height - EDGE) box.scrollTop += STEP
      const inside = y - top + box.scrollTop
      const gap = Math.min(latest.current.count, Math.max(0, Math.round((inside - grip) / rowHeight)))
      current = { from: index, gap: gap > index ? gap + 1 : gap, top: inside - grip }
      setDrag(current)
      frame = requestAnimationFrame(place)
    }
    const move = (moved: PointerEvent) => {
      y = moved.clientY
    }
    const finish = (drop: boolean) => {
      cancelAnimationFrame(frame)
      window.removeEventListener('pointermove', move)
      window.removeEventListener('pointerup', up)
      window.removeEventListener('pointercancel', cancel)
      window.removeEventListener('keydown', key, true)
      setDrag(null)
      const { gap, from } = current
      if (drop && gap !== from && gap !== from + 1) latest.current.onDrop(from, Math.min(gap, latest.current.count))
      else latest.current.onCancel()
    }
    const up = () => finish(true)
    const cancel = () => finish(false)
    const key = (pressed: KeyboardEvent) => {
      if (pressed.key !== 'Escape') return
      pressed.stopPropagation()
      finish(false)
    }
    window.addEventListener('pointermove', move)
    window.addEventListener('pointerup', up)
    window.addEventListener('pointercancel', cancel)
    window.addEventListener('keydown', key, true)
    latest.current.onStart()
    place()
  }
  return { drag, begin }
}
