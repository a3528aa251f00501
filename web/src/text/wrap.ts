// Long lines of a log cut into rows that fit the width. A line that was cut before is not cut again.
import type { Line, Piece } from './ansi'

export interface LogRow {
  pieces: Line
  /** Which line it belongs to. */
  line: number
  /** Whether the line begins here. */
  first: boolean
}

export class Wrapper {
  private readonly columns: number
  private readonly known = new WeakMap<Line, Line[]>()

  /** 0 columns: nothing is cut. */
  constructor(columns: number) {
    this.columns = columns
  }

  rows(lines: Line[]): LogRow[] {
    if (this.columns === 0) return lines.map((pieces, line) => ({ pieces, line, first: true }))
    const rows: LogRow[] = []
    for (const [line, pieces] of lines.entries()) {
      for (const [part, row] of this.cut(pieces).entries()) rows.push({ pieces: row, line, first: part === 0 })
    }
    return rows
  }

  private cut(line: Line): Line[] {
    let parts = this.known.get(line)
    if (parts === undefined) {
      parts = cutLine(line, this.columns)
      this.known.set(line, parts)
    }
    return parts
  }
}

function cutLine(line: Line, columns: number): Line[] {
  const length = line.reduce((sum, piece) => sum + piece.text.length, 0)
  if (length <= columns) return [line]
  const parts: Line[] = []
  let row: Piece[] = []
  let room = columns
  for (const piece of line) {
    let { text } = piece
    while (text.length > room) {
      // Not through the middle of a letter that takes two places in memory.
      const split = isHigh(text.charCodeAt(room - 1)) && room > 1 ? room - 1 : room
      row.push({ text: text.slice(0, split), style: piece.style })
      parts.push(row)
      row = []
      text = text.slice(split)
      room = columns
    }
    if (text !== '') row.push({ text, style: piece.style })
    room -= text.length
  }
  if (row.length > 0) parts.push(row)
  return parts
}

function isHigh(code: number): boolean {
  return code >= 0xd800 && code < 0xdc00
}
