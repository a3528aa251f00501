// The page's own icons, drawn on a grid of 16. They say nothing that words beside them do not say.
import type { JSX } from 'preact'

const paths = {
  overview: 'M2.5 3h11v7.5h-11zM5.5 13.2h5M8 10.5v2.7',
  queue: 'M3 4h10M3 8h10M3 12h6',
  running: 'M5 3.5v9l7-4.5z',
  history: 'M8 4.6V8l2.3 1.5M3.2 5.3A5.6 5.6 0 1 1 2.4 8M2.6 3v2.6h2.6',
  sweeps: 'M3 3h3.6v3.6H3zM9.4 3H13v3.6H9.4zM3 9.4h3.6V13H3zM9.4 9.4H13V13H9.4z',
  machines: 'M3 3.2h10v3.6H3zM3 9.2h10v3.6H3zM5.3 5h.01M5.3 11h.01',
  plus: 'M8 3v10M3 8h10',
  search: 'M7 11.6A4.6 4.6 0 1 0 7 2.4a4.6 4.6 0 0 0 0 9.2zM10.4 10.4 13.6 13.6',
  close: 'M4 4l8 8M12 4l-8 8',
  more: 'M3.5 8h.01M8 8h.01M12.5 8h.01',
  copy: 'M5.5 5.5h7.5V13H5.5zM3 10.5V3h7.5',
  check: 'M3 8.5l3.3 3.3L13 4.8',
  pause: 'M5.5 3.5v9M10.5 3.5v9',
  play: 'M5 3.5v9l7-4.5z',
  stop: 'M4 4h8v8H4z',
  again: 'M12.8 6.5A5.2 5.2 0 1 0 13.2 9M13.2 3.2v3.4H9.8',
  top: 'M3 3h10M8 13V6M5 8.8 8 5.8l3 3',
  edit: 'M3 13l.8-3.2 6.8-6.8 2.4 2.4-6.8 6.8zM9.3 4.3l2.4 2.4',
  trash: 'M3 4.5h10M6.2 4.5V3h3.6v1.5M4.4 4.5l.6 8.5h6l.6-8.5',
  terminal: 'M2.5 3h11v10h-11zM5 6l2 2-2 2M8.5 10.2h2.5',
  down: 'M8 3v7.5M4.8 7.4 8 10.6l3.2-3.2M3 13h10',
  menu: 'M2.5 4.5h11M2.5 8h11M2.5 11.5h11',
  grip: 'M6 4h.01M10 4h.01M6 8h.01M10 8h.01M6 12h.01M10 12h.01',
  sun: 'M8 10.8a2.8 2.8 0 1 0 0-5.6 2.8 2.8 0 0 0 0 5.6zM8 1.8v1.4M8 12.8v1.4M1.8 8h1.4M12.8 8h1.4M3.6 3.6l1 1M11.4 11.4l1 1M12.4 3.6l-1 1M4.6 11.4l-1 1',
  moon: 'M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z',
  half: 'M8 13.4A5.4 5.4 0 1 0 8 2.6a5.4 5.4 0 0 0 0 10.8zM8 2.6v10.8M10.2 3.2v9.6M12.2 4.8v6.4',
  open: 'M6.5 3.5H3.2v9.3h9.3V9.5M9 3h4v4M13 3 7.5 8.5',
  warn: 'M8 2.6 14 13H2zM8 6.6v3M8 11.4h.01',
  left: 'M10 3.5 5.5 8l4.5 4.5',
  resume: 'M3.5 3.5v9M6.5 3.5v9l6.5-4.5z',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, size = 16 }: { name: IconName; size?: number }): JSX.Element {
  const dotted = name === 'more' || name === 'grip'
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 16 16" aria-hidden="true" fill="none"
      stroke="currentColor" stroke-width={dotted ? 2 : 1.4} stroke-linecap="round" stroke-linejoin="round">
      <path d={paths[name]} />
    </svg>
  )
}

/** The mark of a state: its shape differs, not only its colour. */
export function StateMark({ state }: { state: string }): JSX.Element {
  const stroke = { fill: 'none', stroke: 'currentColor', 'stroke-width': 1.6, 'stroke-linecap': 'round' as const }
  return (
    <svg class="icon" width="14" height="14" viewBox="0 0 16 16" aria-hidden="true">
      {state === 'queued' && <circle cx="8" cy="8" r="5.4" {...stroke} stroke-dasharray="2.2 2.1" />}
      {state === 'held' && <g {...stroke}><circle cx="8" cy="8" r="6" /><path d="M6.4 6v4M9.6 6v4" /></g>}
      {(state === 'running' || state === 'starting') && (
        <g>
          <circle cx="8" cy="8" r="5.8" {...stroke} opacity="0.3" />
          <path class="turns" d="M8 2.2A5.8 5.8 0 0 1 13.8 8" {...stroke} />
          {state === 'running' && <circle cx="8" cy="8" r="2.3" fill="currentColor" />}
        </g>
      )}
      {state === 'copying' && <g {...stroke}><circle cx="8" cy="8" r="6" /><path d="M8 5v5M6 8.2 8 10.2l2-2" /></g>}
      {state === 'completed' && <g><circle cx="8" cy="8" r="6.6" fill="currentColor" /><path d="M5.2 8.2l2 2 3.6-4" {...stroke} stroke="var(--panel)" /></g>}
      {state === 'failed' && <g><circle cx="8" cy="8" r="6.6" fill="currentColor" /><path d="M5.8 5.8l4.4 4.4M10.2 5.8l-4.4 4.4" {...stroke} stroke="var(--panel)" /></g>}
      {state === 'killed' && <g {...stroke}><circle cx="8" cy="8" r="6" /><path d="M4.2 11.8 11.8 4.2" /></g>}
    </svg>
  )
}

/** The sign of nexus itself. */
export function Brand(): JSX.Element {
  return (
    <svg class="icon" width="20" height="20" viewBox="0 0 32 32" aria-hidden="true">
      <rect width="32" height="32" rx="7" fill="var(--accent)" />
      <g fill="var(--on-accent)">
        <rect x="7" y="7" width="5" height="18" rx="1.5" />
        <rect x="20" y="7" width="5" height="18" rx="1.5" />
        <path d="M12 7.6 20 20v4.4L12 12z" />
      </g>
    </svg>
  )
}
