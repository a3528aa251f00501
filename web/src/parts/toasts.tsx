// Shows the messages in the corner.
import type { JSX } from 'preact'
import { useStore } from '../state/store'
import { dismiss, toasts } from '../state/toasts'
import { capital } from '../text/words'
import { Icon } from './icons'

export function Toasts(): JSX.Element {
  const shown = useStore(toasts)
  return (
    <div class="toasts" role="status" aria-live="polite">
      {shown.map((toast) => (
        <div key={toast.number} class={`toast ${toast.kind}`}>
          <span class="mark"><Icon name={toast.kind === 'done' ? 'check' : 'warn'} /></span>
          <span class="title">
            {capital(toast.title)}{' '}
            {toast.link && <a class="link" href={toast.link.to}>{toast.link.text}</a>}
          </span>
          <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(toast.number)}>
            <Icon name="close" size={14} />
          </button>
          {toast.why && <span class="why">{capital(toast.why)}</span>}
          {toast.hint && <span class="hint">Try: <code>{toast.hint}</code></span>}
        </div>
      ))}
    </div>
  )
}
