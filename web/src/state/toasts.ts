// Short messages in the corner: what was done, and what could not be.
import { Problem } from '../api/http'
import { Store } from './store'
import { toProblem } from './use'

export interface Toast {
  number: number
  kind: 'done' | 'problem'
  title: string
  why?: string
  hint?: string
  link?: { text: string; to: string }
}

export const toasts = new Store<Toast[]>([])

const DONE_FOR_MS = 5000
const PROBLEM_FOR_MS = 12_000
const MOST = 4

let last = 0

function show(toast: Omit<Toast, 'number'>, forMs: number): void {
  const number = ++last
  toasts.update((shown) => [...shown, { ...toast, number }].slice(-MOST))
  window.setTimeout(() => dismiss(number), forMs)
}

export function dismiss(number: number): void {
  toasts.update((shown) => shown.filter((toast) => toast.number !== number))
}

export function tellDone(title: string, link?: { text: string; to: string }): void {
  show(link ? { kind: 'done', title, link } : { kind: 'done', title }, DONE_FOR_MS)
}

export function tellProblem(error: unknown): void {
  const problem: Problem = toProblem(error)
  if (problem.status === 401) return
  const { title, why, hint } = problem.body
  show({ kind: 'problem', title, ...(why ? { why } : {}), ...(hint ? { hint } : {}) }, PROBLEM_FOR_MS)
}

/** Does something for the user; says what came of it. True when it was done. */
export async function attempt(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work()
    if (done !== undefined) tellDone(done)
    return true
  } catch (error) {
    tellProblem(error)
    return false
  }
}
