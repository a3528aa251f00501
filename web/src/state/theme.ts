// Light, dark, or as the system has it. The choice is remembered in this browser.
import { Store } from './store'

export type Theme = 'system' | 'light' | 'dark'

const KEY = 'nexus-theme'
const THEMES: readonly Theme[] = ['system', 'light', 'dark']
const systemDark = window.matchMedia('(prefers-color-scheme: dark)')

function remembered(): Theme {
  try {
    const text = window.localStorage.getItem(KEY)
    return THEMES.find((theme) => theme === text) ?? 'system'
  } catch {
    return 'system'
  }
}

export const theme = new Store<Theme>(remembered())
/** Whether it is dark now, whoever said so: charts and the terminal draw in its colours. */
export const isDark = new Store(false)

function apply(): void {
  const chosen = theme.get()
  const dark = chosen === 'dark' || (chosen === 'system' && systemDark.matches)
  document.documentElement.dataset.theme = dark ? 'dark' : 'light'
  isDark.set(dark)
}

export function startTheme(): void {
  apply()
  theme.watch(apply)
  systemDark.addEventListener('change', apply)
}

export function nextTheme(): void {
  const next = THEMES[(THEMES.indexOf(theme.get()) + 1) % THEMES.length] ?? 'system'
  theme.set(next)
  try {
    window.localStorage.setItem(KEY, next)
  } catch {
    // A browser that remembers nothing: it holds until the tab is closed.
  }
}
