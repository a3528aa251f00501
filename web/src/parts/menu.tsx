// A button that opens a short list of things to do. Arrow keys move, Escape closes.
import type { CSSProperties, JSX } from 'preact'
import { useEffect, useLayoutEffect, useRef, useState } from 'preact/hooks'
import { Icon, type IconName } from './icons'

export interface MenuItem {
  label: string
  icon: IconName
  danger?: boolean
  run: () => void
}

/** Light while it is shut: long lists have one in each row. */
export function Menu({ label, items }: { label: string; items: MenuItem[] }): JSX.Element | null {
  const [button, setButton] = useState<HTMLButtonElement | null>(null)
  if (items.length === 0) return null
  const open = button !== null
  return (
    <span class="menu-holder">
      <button
        type="button"
        class="icon-button"
        aria-label={label}
        aria-haspopup="menu"
        aria-expanded={open}
        onClick={(event) => setButton(open ? null : event.currentTarget)}
      >
        <Icon name="more" />
      </button>
      {button !== null && <MenuList button={button} items={items} shut={() => setButton(null)} />}
    </span>
  )
}

function MenuList({ button, items, shut }: { button: HTMLButtonElement; items: MenuItem[]; shut: () => void }): JSX.Element {
  const list = useRef<HTMLDivElement>(null)
  const [place, setPlace] = useState<CSSProperties>({ visibility: 'hidden' })

  useLayoutEffect(() => {
    if (!list.current) return
    // Over everything: the row it belongs to draws nothing outside itself.
    list.current.showPopover()
    const from = button.getBoundingClientRect()
    const size = list.current.getBoundingClientRect()
    const below = from.bottom + 4 + size.height < window.innerHeight
    const top = below ? from.bottom + 4 : Math.max(8, from.top - 4 - size.height)
    setPlace({ top: `${top}px`, left: `${Math.max(8, from.right - size.width)}px` })
  }, [])
  // Not before it is visible: what is hidden takes no focus.
  useEffect(() => list.current?.querySelector('button')?.focus(), [place])

  useEffect(() => {
    const outside = (event: Event) => {
      const { target } = event
      if (!(target instanceof Node && (list.current?.contains(target) || button.contains(target)))) shut()
    }
    document.addEventListener('pointerdown', outside)
    window.addEventListener('resize', shut)
    document.addEventListener('scroll', outside, true)
    return () => {
      document.removeEventListener('pointerdown', outside)
      window.removeEventListener('resize', shut)
      document.removeEventListener('scroll', outside, true)
    }
  }, [])

  const close = () => {
    shut()
    button.focus()
  }
  const onKey = (event: KeyboardEvent) => {
    event.stopPropagation()
    if (event.key === 'Escape') close()
    if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return
    event.preventDefault()
    const buttons = [...(list.current?.querySelectorAll('button') ?? [])]
    const at = buttons.findIndex((one) => one === document.activeElement)
    const step = event.key === 'ArrowDown' ? 1 : -1
    buttons[(at + step + buttons.length) % buttons.length]?.focus()
  }
  return (
    <div class="menu" role="menu" popover="manual" ref={list} style={place} onKeyDown={onKey}>
      {items.map((item) => (
        <button
          key={item.label}
          type="button"
          role="menuitem"
          class={item.danger ? 'danger' : ''}
          onClick={() => {
            close()
            item.run()
          }}
        >
          <Icon name={item.icon} />
          {item.label}
        </button>
      ))}
    </div>
  )
}
