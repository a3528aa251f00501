// A job's output as lines, followed as it comes. After a break it is read again from its end.
import { isAborted, request, address, type Problem } from '../api/http'
import { AnsiReader, type Line } from '../text/ansi'
import { toProblem } from './use'

export type Stream = 'both' | 'stdout' | 'stderr'

export interface LogQuestion {
  id: string
  stream: Stream
  attempt: number | null
  /** Lines at the end; null = all there is. */
  tail: number | null
  follow: boolean
}

export interface LogShown {
  lines: Line[]
  /** Lines that were let go at the beginning, to keep the page light. */
  dropped: number
  problem: Problem | null
  /** More may come. */
  following: boolean
}

const MOST_LINES = 100_000
/** Lines are shown in such steps, however fast they come. */
const SHOW_MS = 100
const RETRY_MS = 1000

export class LogStream {
  private readonly abort = new AbortController()
  private readonly question: LogQuestion
  private readonly changed: (shown: LogShown) => void
  private lines: Line[] = []
  private dropped = 0
  private reader = new AnsiReader()
  private problem: Problem | null = null
  private following = true
  private timer: number | undefined

  constructor(question: LogQuestion, changed: (shown: LogShown) => void) {
    this.question = question
    this.changed = changed
    void this.run()
  }

  stop(): void {
    this.abort.abort()
    window.clearTimeout(this.timer)
  }

  private async run(): Promise<void> {
    for (;;) {
      try {
        await this.read()
        this.problem = null
        break
      } catch (error) {
        if (isAborted(error)) return
        this.problem = toProblem(error)
        // What the service refuses stays refused; a line that broke is tried again.
        if (this.problem.status >= 400 && this.problem.status < 500) break
        this.show()
        await new Promise((resolve) => window.setTimeout(resolve, RETRY_MS))
        if (this.abort.signal.aborted) return
      }
    }
    this.following = false
    this.show()
  }

  private async read(): Promise<void> {
    const { id, stream, attempt, tail, follow } = this.question
    const query = { stream, follow, attempt: attempt ?? undefined, tail: tail ?? undefined }
    const response = await request(address(`/v1/jobs/${id}/log`, query), { signal: this.abort.signal })
    this.lines = []
    this.dropped = 0
    this.problem = null
    this.reader = new AnsiReader()
    const body = response.body?.getReader()
    if (!body) return
    for (;;) {
      const { done, value } = await body.read()
      if (done) return
      for (const line of this.reader.push(value)) this.lines.push(line)
      if (this.lines.length > MOST_LINES * 1.1) {
        const excess = this.lines.length - MOST_LINES
        this.lines = this.lines.slice(excess)
        this.dropped += excess
      }
      this.showSoon()
    }
  }

  private showSoon(): void {
    this.timer ??= window.setTimeout(() => this.show(), SHOW_MS)
  }

  private show(): void {
    window.clearTimeout(this.timer)
    this.timer = undefined
    if (this.abort.signal.aborted) return
    const open = this.reader.open()
    const lines = open === null ? this.lines.slice() : [...this.lines, open]
    this.changed({ lines, dropped: this.dropped, problem: this.problem, following: this.following })
  }
}
