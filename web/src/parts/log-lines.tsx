// Lines of a log: those on the screen are in the document, coloured as the job wrote them. Text only, ever.
import type { CSSProperties, JSX } from 'preact'
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks'
import { paletteColour, type Line, type Piece } from '../text/ansi'
import { Wrapper } from '../text/wrap'

export const LINE_HEIGHT = 18
const BEYOND = 20

interface Props {
  lines: Line[]
  firstNumber: number
  /** Cut long lines to the width, instead of scrolling sideways. */
  wrap: boolean
  /** Stay at the end as lines come. */
  stick: boolean
  onStick: (stick: boolean) => void
  find: string
  /** The line the search is at. */
  current: number | null
}

/** Blanks around the number of a line, and room for the scrollbar. */
const MARGIN_PIXELS = 48

/** How wide a letter is, in the font of logs. */
function letterWidth(box: HTMLElement): number {
  const pen = document.createElement('canvas').getContext('2d')
  if (!pen) return 8
  pen.font = getComputedStyle(box).font
  return pen.measureText('0'.repeat(100)).width / 100
}

export function LogLines({ lines, firstNumber, wrap, stick, onStick, find, current }: Props): JSX.Element {
  const box = useRef<HTMLDivElement>(null)
  const [width, setWidth] = useState(0)
  const digits = String(firstNumber + lines.length).length
  const columns = useMemo(() => {
    if (!wrap || box.current === null || width === 0) return 0
    const letter = letterWidth(box.current)
    return Math.max(20, Math.floor((width - MARGIN_PIXELS) / letter) - digits - 1)
  }, [wrap, width, digits])
  const wrapper = useMemo(() => new Wrapper(columns), [columns])
  const rows = useMemo(() => wrapper.rows(lines), [wrapper, lines])
  const currentRow = current === null ? null : rows.findIndex((row) => row.line === current)
  const [range, setRange] = useState<[number, number]>([0, 60])
  const widest = useRef(0)

  const measure = () => {
    const element = box.current
    if (!element) return
    const first = Math.max(0, Math.floor(element.scrollTop / LINE_HEIGHT) - BEYOND)
    const last = Math.ceil((element.scrollTop + element.clientHeight) / LINE_HEIGHT) + BEYOND
    setRange((before) => (before[0] === first && before[1] === last ? before : [first, last]))
  }
  const onScroll = () => {
    const element = box.current
    if (!element) return
    const atEnd = element.scrollTop + element.clientHeight >= element.scrollHeight - LINE_HEIGHT
    if (atEnd !== stick) onStick(atEnd)
    measure()
  }
  useLayoutEffect(() => {
    const element = box.current
    if (element && stick) element.scrollTop = element.scrollHeight
    measure()
  }, [rows, stick])
  useEffect(() => {
    const element = box.current
    if (!element || currentRow === null) return
    element.scrollTop = Math.max(0, currentRow * LINE_HEIGHT - element.clientHeight / 2)
  }, [currentRow])
  useEffect(() => {
    const element = box.current
    if (!element) return
    const sizes = new ResizeObserver(() => {
      setWidth(element.clientWidth)
      measure()
    })
    sizes.observe(element)
    return () => sizes.disconnect()
  }, [])

  const shown = rows.slice(range[0], range[1])
  // The widest line seen so far keeps its room, so that scrolling sideways does not jump.
  for (const row of shown) widest.current = Math.max(widest.current, row.pieces.reduce((sum, piece) => sum + piece.text.length, 0))
  return (
    <div class="log-box" ref={box} onScroll={onScroll} tabIndex={0} role="log" aria-label="Output" aria-live="off">
      <div class="log-space" style={{ height: `${rows.length * LINE_HEIGHT}px`, minWidth: columns > 0 ? 'auto' : `${widest.current + digits + 4}ch` }}>
        {shown.map((row, offset) => {
          const index = range[0] + offset
          return (
            <div key={index} class={`log-line ${row.line === current ? 'current' : ''}`} style={{ top: `${index * LINE_HEIGHT}px` }}>
              <span class="log-number" style={{ width: `${digits + 1}ch` }}>{row.first && firstNumber + row.line}</span>
              {row.pieces.map((piece, place) => <PieceText key={place} piece={piece} find={find} />)}
            </div>
          )
        })}
      </div>
    </div>
  )
}

function PieceText({ piece, find }: { piece: Piece; find: string }): JSX.Element {
  const { style } = piece
  const colours: CSSProperties = {}
  const [fg, bg] = style.inverse ? [style.bg ?? 'var(--log-bg)', style.fg ?? 'var(--log-text)'] : [style.fg, style.bg]
  if (fg !== null) colours.color = colourOf(fg)
  if (bg !== null) colours.background = colourOf(bg)
  if (style.bold) colours.fontWeight = 700
  if (style.dim) colours.opacity = 0.65
  if (style.italic) colours.fontStyle = 'italic'
  const decoration = [style.underline && 'underline', style.strike && 'line-through'].filter(Boolean).join(' ')
  if (decoration !== '') colours.textDecoration = decoration
  return <span style={colours}>{find === '' ? piece.text : marked(piece.text, find)}</span>
}

/** The sixteen of the theme are variables; the rest is the same everywhere. */
function colourOf(colour: number | string): string {
  if (typeof colour === 'string') return colour
  return colour < 16 ? `var(--ansi-${colour})` : paletteColour(colour)
}

function marked(text: string, find: string): (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = []
  const low = text.toLowerCase()
  const wanted = find.toLowerCase()
  let at = 0
  for (let hit = low.indexOf(wanted); hit >= 0; hit = low.indexOf(wanted, at)) {
    parts.push(text.slice(at, hit), <mark>{text.slice(hit, hit + wanted.length)}</mark>)
    at = hit + wanted.length
  }
  parts.push(text.slice(at))
  return parts
}
