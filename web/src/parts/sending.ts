// A form on its way to the service: sent once at a time, and what goes wrong is told.
import { useState } from 'preact/hooks'
import { tellProblem } from '../state/toasts'

export function useSending(send: () => Promise<void>): { sending: boolean; onSubmit: (event: Event) => Promise<void> } {
  const [sending, setSending] = useState(false)
  const onSubmit = async (event: Event) => {
    event.preventDefault()
    setSending(true)
    try {
      await send()
    } catch (error) {
      tellProblem(error)
    } finally {
      setSending(false)
    }
  }
  return { sending, onSubmit }
}
