// A search field. Escape empties it.
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Icon } from './icons'

interface Props {
  value: string
  onInput: (text: string) => void
  label: string
  placeholder: string
  focus?: boolean
}

export function Search({ value, onInput, label, placeholder, focus = false }: Props): JSX.Element {
  const field = useRef<HTMLInputElement>(null)
  useEffect(() => {
    if (focus) field.current?.focus()
  }, [focus])
  const onKey = (event: KeyboardEvent) => {
    if (event.key !== 'Escape') return
    onInput('')
    field.current?.blur()
  }
  return (
    <div class="search">
      <Icon name="search" size={14} />
      <input ref={field} type="search" value={value} placeholder={placeholder} aria-label={label} spellcheck={false} autocomplete="off" onInput={(event) => onInput(event.currentTarget.value)} onKeyDown={onKey} />
    </div>
  )
}
