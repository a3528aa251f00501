// Reads something from the service, and again when an event says that it may have changed.
import { useEffect, useRef, useState } from 'preact/hooks'
import { Problem, isAborted } from '../api/http'
import type { Event } from '../api/service'
import { listen } from './live'

/** However many events come, a view reads anew no more often than this. */
export const REFRESH_MS = 500

export interface Read<T> {
  data: T | null
  problem: Problem | null
  again: () => void
}

export function toProblem(error: unknown): Problem {
  if (error instanceof Problem) return error
  const why = error instanceof Error ? error.message : String(error)
  return new Problem(0, { problem: 'page', title: 'this page failed', why, hint: 'reload it' })
}

/** Runs `work` at once, then at most once in `every` milliseconds, and never twice at a time. */
export class Pace {
  private last = -Infinity
  private timer: number | undefined
  private busy = false
  private wanted = false
  private stopped = false
  private readonly every: number
  private readonly work: () => Promise<void>

  constructor(work: () => Promise<void>, every = REFRESH_MS) {
    this.work = work
    this.every = every
  }

  want(): void {
    if (this.stopped) return
    this.wanted = true
    if (this.busy || this.timer !== undefined) return
    const wait = Math.max(0, this.last + this.every - performance.now())
    this.timer = window.setTimeout(() => void this.go(), wait)
  }

  stop(): void {
    this.stopped = true
    window.clearTimeout(this.timer)
  }

  private async go(): Promise<void> {
    this.timer = undefined
    this.wanted = false
    this.busy = true
    try {
      await this.work()
    } finally {
      this.last = performance.now()
      this.busy = false
      if (this.wanted) this.want()
    }
  }
}

export function useRead<T>(
  key: string,
  read: () => Promise<T>,
  concerns: (event: Event) => boolean,
  every = REFRESH_MS,
): Read<T> {
  const [answer, setAnswer] = useState<{ key: string; data: T | null; problem: Problem | null }>({
    key,
    data: null,
    problem: null,
  })
  const latest = useRef({ read, concerns })
  latest.current = { read, concerns }
  const pace = useRef<Pace | null>(null)
  useEffect(() => {
    let gone = false
    const mine = new Pace(async () => {
      try {
        const data = await latest.current.read()
        if (!gone) setAnswer({ key, data, problem: null })
      } catch (error) {
        if (gone || isAborted(error)) return
        // What was known stays on the page while the service is away.
        setAnswer((before) => ({ key, data: before.key === key ? before.data : null, problem: toProblem(error) }))
      }
    }, every)
    pace.current = mine
    mine.want()
    const forget = listen((event) => {
      if (event.kind === 'missed' || latest.current.concerns(event)) mine.want()
    })
    return () => {
      gone = true
      mine.stop()
      forget()
    }
  }, [key])
  const current = answer.key === key ? answer : { data: null, problem: null }
  return { data: current.data, problem: current.problem, again: () => pace.current?.want() }
}

/** The value as it was when nothing had changed for a while. */
export function useSettled<T>(value: T, milliseconds: number): T {
  const [settled, setSettled] = useState(value)
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(() => value), milliseconds)
    return () => window.clearTimeout(timer)
  }, [value, milliseconds])
  return settled
}
