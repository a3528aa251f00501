// Asks the service what something would come to, a moment after the last change, and only for the newest.
import { useEffect, useState } from 'preact/hooks'
import { isAborted, type Problem } from '../api/http'
import { toProblem } from '../state/use'

export interface Preview<T> {
  answer: T | null
  problem: Problem | null
  asking: boolean
}

const SETTLE_MS = 350

/** `key` is the whole question; null asks nothing. */
export function usePreview<T>(key: string | null, ask: (signal: AbortSignal) => Promise<T>): Preview<T> {
  const [preview, setPreview] = useState<Preview<T>>({ answer: null, problem: null, asking: false })
  useEffect(() => {
    if (key === null) {
      setPreview({ answer: null, problem: null, asking: false })
      return
    }
    const abort = new AbortController()
    setPreview((before) => ({ ...before, asking: true }))
    const timer = window.setTimeout(() => {
      ask(abort.signal).then(
        (answer) => setPreview({ answer, problem: null, asking: false }),
        (error: unknown) => {
          if (!isAborted(error)) setPreview({ answer: null, problem: toProblem(error), asking: false })
        },
      )
    }, SETTLE_MS)
    return () => {
      window.clearTimeout(timer)
      abort.abort()
    }
  }, [key])
  return preview
}
