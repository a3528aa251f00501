// A field of a form with its label, a note, and what is wrong with it.
import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'

interface Props {
  label: string
  note?: ComponentChildren
  wrong?: string | undefined
  children: (id: string, described: string) => JSX.Element
}

export function Field({ label, note, wrong, children }: Props): JSX.Element {
  const id = useId()
  const described = `${id}-note`
  return (
    <div class={`field ${wrong ? 'wrong' : ''}`}>
      <label for={id}>{label}</label>
      {children(id, described)}
      <span id={described} class="hidden-when-empty">
        {wrong ? <span class="wrong-text" role="alert">{wrong}</span> : note ? <span class="note">{note}</span> : null}
      </span>
    </div>
  )
}

interface TextProps {
  label: string
  value: string
  onInput: (value: string) => void
  note?: ComponentChildren
  wrong?: string | undefined
  placeholder?: string
  rows?: number
  mono?: boolean
}

export function TextField({ label, value, onInput, note, wrong, placeholder, rows, mono = false }: TextProps): JSX.Element {
  return (
    <Field label={label} note={note} wrong={wrong}>
      {(id, described) => rows === undefined
        ? <input id={id} aria-describedby={described} aria-invalid={wrong !== undefined} class={mono ? 'mono' : ''} type="text" value={value} placeholder={placeholder} spellcheck={false} autocomplete="off" onInput={(event) => onInput(event.currentTarget.value)} />
        : <textarea id={id} aria-describedby={described} aria-invalid={wrong !== undefined} class={mono ? 'mono' : ''} rows={rows} value={value} placeholder={placeholder} spellcheck={false} onInput={(event) => onInput(event.currentTarget.value)} />}
    </Field>
  )
}

export function CheckField({ label, value, onChange }: { label: string; value: boolean; onChange: (value: boolean) => void }): JSX.Element {
  return <label class="check"><input type="checkbox" checked={value} onChange={(event) => onChange(event.currentTarget.checked)} />{label}</label>
}

interface SelectProps {
  label: string
  value: string
  /** Value and words of each choice. */
  choices: [string, string][]
  onChange: (value: string) => void
  note?: ComponentChildren
  wrong?: string | undefined
  disabled?: boolean
}

export function SelectField({ label, value, choices, onChange, note, wrong, disabled = false }: SelectProps): JSX.Element {
  // What was chosen stays to be seen when it is no choice any more.
  const all = choices.some(([known]) => known === value) ? choices : [...choices, [value, value] as const]
  return (
    <Field label={label} note={note} wrong={wrong}>
      {(id, described) => (
        <select id={id} aria-describedby={described} aria-invalid={wrong !== undefined} value={value} disabled={disabled} onChange={(event) => onChange(event.currentTarget.value)}>
          {all.map(([known, words]) => <option key={known} value={known}>{words}</option>)}
        </select>
      )}
    </Field>
  )
}
