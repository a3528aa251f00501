// Dialogs over the page: a plain one, and one that asks before something is ended or deleted.
import type { ComponentChildren, JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import { Store, useStore } from '../state/store'

interface Props {
  label: string
  wide?: boolean
  onClose: () => void
  children: ComponentChildren
}

/** The browser keeps the focus inside, and Escape closes it. */
export function Dialog({ label, wide = false, onClose, children }: Props): JSX.Element {
  const element = useRef<HTMLDialogElement>(null)
  useEffect(() => {
    const dialog = element.current
    dialog?.showModal()
    return () => dialog?.close()
  }, [])
  return (
    <dialog
      ref={element}
      aria-label={label}
      class={wide ? 'wide' : ''}
      onCancel={(event) => {
        event.preventDefault()
        onClose()
      }}
      onClick={(event) => {
        if (event.target === element.current) onClose()
      }}
    >
      {children}
    </dialog>
  )
}

interface Question {
  title: string
  text: string
  /** What it is done to, one a line. */
  things?: string[]
  action: string
  answer: (yes: boolean) => void
}

const question = new Store<Question | null>(null)

export function ask(asked: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((resolve) => {
    const answer = (yes: boolean) => {
      question.set(null)
      resolve(yes)
    }
    question.set({ ...asked, answer })
  })
}

export function AskDialog(): JSX.Element | null {
  const asked = useStore(question)
  if (asked === null) return null
  return (
    <Dialog label={asked.title} onClose={() => asked.answer(false)}>
      <form
        onSubmit={(event) => {
          event.preventDefault()
          asked.answer(true)
        }}
      >
        <div class="dialog-body">
          <h2>{asked.title}</h2>
          <p class="soft">{asked.text}</p>
          {asked.things !== undefined && (
            <ul class="dialog-list mono">
              {asked.things.map((thing) => <li key={thing} class="cut">{thing}</li>)}
            </ul>
          )}
        </div>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={() => asked.answer(false)}>Cancel</button>
          <button type="submit" class="button primary danger" autoFocus>{asked.action}</button>
        </div>
      </form>
    </Dialog>
  )
}
