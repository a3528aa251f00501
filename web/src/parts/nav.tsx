// The way between the pages. On a phone it slides in from the side.
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { route } from '../route'
import { service, status } from '../state/status'
import { useStore } from '../state/store'
import { nextTheme, theme } from '../state/theme'
import { grouped } from '../text/words'
import { Brand, Icon, type IconName } from './icons'
import { helpOpen } from './keys'

interface Place {
  name: string
  path: string
  icon: IconName
}

export const PLACES: Place[] = [
  { name: 'Overview', path: '', icon: 'overview' },
  { name: 'Queue', path: 'queue', icon: 'queue' },
  { name: 'Running', path: 'running', icon: 'running' },
  { name: 'History', path: 'history', icon: 'history' },
  { name: 'Sweeps', path: 'sweeps', icon: 'sweeps' },
  { name: 'Machines', path: 'machines', icon: 'machines' },
]

const THEME_WORDS = { system: ['half', 'System'], light: ['sun', 'Light'], dark: ['moon', 'Dark'] } as const

export function Nav(): JSX.Element {
  const [open, setOpen] = useState(false)
  const here = useStore(route)
  useEffect(() => setOpen(false), [here])
  const now = useStore(status)
  const facts = useStore(service)
  const [themeIcon, themeWord] = THEME_WORDS[useStore(theme)]
  const counts: Record<string, number | undefined> = {
    queue: now?.pending,
    running: now?.active.length,
  }
  return (
    <>
      <header class="topbar">
        <button type="button" class="icon-button" aria-label="Menu" aria-expanded={open} onClick={() => setOpen(true)}><Icon name="menu" /></button>
        <span>nexus</span>
        <span class="grow" />
        <a class="icon-button" aria-label="New job" href="#/submit"><Icon name="plus" /></a>
      </header>
      <button type="button" class={`scrim ${open ? 'open' : ''}`} aria-label="Close the menu" tabIndex={-1} onClick={() => setOpen(false)} />
      <nav class={`nav ${open ? 'open' : ''}`} aria-label="Pages" onKeyDown={(event) => event.key === 'Escape' && setOpen(false)}>
        <a class="brand" href="#/">
          <Brand />
          nexus
          {facts && <span class="where cut" title={facts.host}>{facts.host}</span>}
        </a>
        {PLACES.map((place) => {
          const count = counts[place.path]
          return (
            <a key={place.path} class="nav-link" href={`#/${place.path}`} aria-current={(here.path[0] ?? '') === place.path ? 'page' : undefined}>
              <Icon name={place.icon} />
              {place.name}
              {count !== undefined && count > 0 && <span class="count">{grouped(count)}</span>}
            </a>
          )
        })}
        <a class="button primary new" href="#/submit"><Icon name="plus" />New job</a>
        <div class="foot">
          <button type="button" class="button-text" onClick={nextTheme} aria-label={`Theme: ${themeWord}. Switch`}>
            <Icon name={themeIcon} />
            {themeWord}
          </button>
          <button type="button" class="button-text" onClick={() => helpOpen.set(true)} aria-label="Keyboard shortcuts"><kbd>?</kbd></button>
        </div>
      </nav>
    </>
  )
}
