// How a machine stands, as several pages show it.
import type { JSX } from 'preact'
import type { Machine } from '../api/service'
import { standing } from '../text/machines'
import { capital, printable } from '../text/words'

/** Why it takes no jobs and what to do about it; nothing of one that takes them. */
export function Standing({ machine, named = false }: { machine: Machine; named?: boolean }): JSX.Element | null {
  const words = standing(machine)
  if (words === null) return null
  return (
    <div class="standing">
      <span class={`machine-state ${machine.pool?.state}`}>{printable(named ? `Machine ${machine.name} is ${words}` : capital(words))}</span>
      <Hint text={machine.pool?.hint ?? null} />
    </div>
  )
}

/** What to type is set apart; what is said in words is a sentence. */
export function Hint({ text }: { text: string | null }): JSX.Element | null {
  if (text === null) return null
  if (!text.startsWith('nexus ')) return <span class="soft">{capital(printable(text))}</span>
  return <span class="soft">Try: <code>{printable(text)}</code></span>
}
