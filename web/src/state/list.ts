// A long list read in pages. Only pages somebody looks at are read again; the rest is read when it is scrolled to.
import { isAborted, type Page, type Problem } from '../api/http'
import { Pace, toProblem } from './use'

interface Held<T> {
  cursor: string
  rows: T[]
  next: string | null
  stale: boolean
}

export interface Shown<T> {
  rows: T[]
  /** Whether more rows follow those known. */
  more: boolean
  loading: boolean
  problem: Problem | null
}

export class PagedList<T extends { id: string }> {
  private pages: Held<T>[] = []
  private range: [number, number] = [0, 0]
  private problem: Problem | null = null
  private loading = false
  private stopped = false
  /** Rises with every touch: what was asked for before the last one is old when it comes. */
  private touches = 0
  private readonly pace: Pace
  private readonly read: (cursor: string) => Promise<Page<T>>
  private readonly changed: (shown: Shown<T>) => void
  /** Called off while a row is dragged: nothing may move under the hand. */
  private frozen = false

  constructor(read: (cursor: string) => Promise<Page<T>>, changed: (shown: Shown<T>) => void) {
    this.read = read
    this.changed = changed
    this.pace = new Pace(() => this.refresh())
  }

  /** Everything known may be old. */
  touch(): void {
    this.touches++
    for (const page of this.pages) page.stale = true
    this.pace.want()
  }

  /** Rows of these places are on the screen. */
  look(first: number, last: number): void {
    this.range = [first, last]
    if (this.wanted().length > 0) this.pace.want()
  }

  freeze(frozen: boolean): void {
    this.frozen = frozen
    if (!frozen) this.touch()
  }

  /** Shows a change before the service has confirmed it. */
  assume(change: (rows: T[]) => T[]): void {
    const rows = change(this.rows())
    let start = 0
    for (const page of this.pages) {
      page.rows = rows.slice(start, (start += page.rows.length))
      page.stale = true
    }
    this.show()
  }

  stop(): void {
    this.stopped = true
    this.pace.stop()
  }

  private rows(): T[] {
    const seen = new Set<string>()
    const rows: T[] = []
    // A row that moved between two reads stands in two pages; the first place counts.
    for (const page of this.pages) {
      for (const row of page.rows) {
        if (seen.has(row.id)) continue
        seen.add(row.id)
        rows.push(row)
      }
    }
    return rows
  }

  private show(): void {
    if (this.stopped) return
    const more = this.pages.length === 0 ? this.loading : this.pages.at(-1)?.next != null
    this.changed({ rows: this.rows(), more, loading: this.loading, problem: this.problem })
  }

  /** Pages that are on the screen and not read, by their number. */
  private wanted(): number[] {
    if (this.pages.length === 0) return [0]
    const wanted: number[] = []
    let start = 0
    for (const [number, page] of this.pages.entries()) {
      const end = start + page.rows.length
      const seen = start <= this.range[1] && end >= this.range[0]
      if (seen && page.stale) wanted.push(number)
      start = end
    }
    const nearEnd = this.range[1] >= start - 30
    if (nearEnd && this.pages.at(-1)?.next != null) wanted.push(this.pages.length)
    return wanted
  }

  private async refresh(): Promise<void> {
    if (this.frozen) return
    this.loading = true
    if (this.pages.length === 0) this.show()
    try {
      // The first that is read may move the others: each is looked for anew.
      for (let turns = 0; turns < 3; turns++) {
        const number = this.wanted()[0]
        if (number === undefined || this.frozen || this.stopped) break
        await this.readPage(number)
      }
      this.problem = null
    } catch (error) {
      if (!isAborted(error)) this.problem = toProblem(error)
    }
    this.loading = false
    this.show()
  }

  private async readPage(number: number): Promise<void> {
    const cursor = this.pages[number]?.cursor ?? this.pages.at(-1)?.next ?? ''
    const asked = this.touches
    const page = await this.read(cursor)
    if (this.frozen) return
    const rows = keepSame(this.pages[number]?.rows ?? [], page.rows)
    this.pages[number] = { cursor, rows, next: page.next, stale: asked !== this.touches }
    const after = this.pages[number + 1]
    // What follows begins elsewhere now: it is read when somebody gets there.
    if (after && after.cursor !== page.next) this.pages.length = number + 1
  }
}

/** A row that says the same as before stays the very one, so that it need not be drawn again. */
function keepSame<T extends { id: string }>(before: T[], now: T[]): T[] {
  const known = new Map(before.map((row) => [row.id, row]))
  return now.map((row) => {
    const old = known.get(row.id)
    return old !== undefined && JSON.stringify(old) === JSON.stringify(row) ? old : row
  })
}
