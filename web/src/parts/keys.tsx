// Keyboard shortcuts, and the list of them. None works while something is typed.
import type { JSX } from 'preact'
import { go } from '../route'
import { Store, useStore } from '../state/store'
import { Dialog } from './dialog'

export const helpOpen = new Store(false)

const GO: Record<string, [string, string]> = {
  o: ['#/', 'Overview'],
  q: ['#/queue', 'Queue'],
  r: ['#/running', 'Running'],
  h: ['#/history', 'History'],
  s: ['#/sweeps', 'Sweeps'],
  m: ['#/machines', 'Machines'],
}

/** How long a g waits for its second letter. */
const SECOND_KEY_MS = 1500

let leaderUntil = 0

export function startKeys(): void {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
    if (document.querySelector('dialog[open]') !== null) return
    const leading = performance.now() < leaderUntil
    leaderUntil = 0
    const place = leading ? GO[event.key] : undefined
    if (place) go(place[0])
    else if (event.key === 'g') leaderUntil = performance.now() + SECOND_KEY_MS
    else if (event.key === 'n') go('#/submit')
    else if (event.key === '?') helpOpen.set(true)
    else if (event.key === '/') search()
    else return
    event.preventDefault()
  })
}

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && target.closest('input, textarea, select, [contenteditable], .terminal-screen') !== null
}

/** The search of this page, or that of the history where it has none. */
function search(): void {
  const field = document.querySelector<HTMLInputElement>('input[type="search"]')
  if (field) field.focus()
  else go('#/history?focus=search')
}

export function KeysHelp(): JSX.Element | null {
  const open = useStore(helpOpen)
  if (!open) return null
  const close = () => helpOpen.set(false)
  return (
    <Dialog label="Keyboard shortcuts" onClose={close}>
      <div class="dialog-body">
        <h2>Keyboard shortcuts</h2>
        <div class="keys">
          {Object.entries(GO).map(([key, [, name]]) => (
            <KeyLine key={key} keys={['g', key]} does={`Go to ${name}`} />
          ))}
          <KeyLine keys={['n']} does="New job" />
          <KeyLine keys={['/']} does="Search" />
          <KeyLine keys={['Alt', '↑ ↓']} does="Move the focused job of the queue" />
          <KeyLine keys={['x']} does="Select the focused job of the queue" />
          <KeyLine keys={['Enter']} does="Open the focused job" />
          <KeyLine keys={['?']} does="This list" />
        </div>
      </div>
      <div class="dialog-actions"><button type="button" class="button" autoFocus onClick={close}>Close</button></div>
    </Dialog>
  )
}

function KeyLine({ keys, does }: { keys: string[]; does: string }): JSX.Element {
  return (
    <>
      <span>{keys.map((key) => <kbd key={key}>{key}</kbd>)}</span>
      <span>{does}</span>
    </>
  )
}
