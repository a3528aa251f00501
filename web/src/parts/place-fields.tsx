// Where a new job may run. Where there is one machine there is nothing to choose.
import type { JSX } from 'preact'
import type { Machine } from '../api/service'
import type { Draft, DraftErrors } from '../state/draft'
import { status } from '../state/status'
import { useStore } from '../state/store'
import { USUAL_CLASS, classesOf, isClosed } from '../text/machines'
import { printable } from '../text/words'
import { SelectField } from './field'

interface Props {
  draft: Draft
  set: (change: Partial<Draft>) => void
  errors: DraftErrors
}

export function PlaceFields({ draft, set, errors }: Props): JSX.Element | null {
  const machines = useStore(status)?.machines ?? []
  if (machines.length < 2 && draft.class === '' && draft.machine === '') return null
  const classes = classesOf(machines).map((name): [string, string] => [name === USUAL_CLASS ? '' : name, printable(name)])
  const names = machines.map((machine): [string, string] => [machine.name, choiceWords(machine)])
  const one = draft.machine !== ''
  return (
    <div class="form-row">
      <SelectField label="Class of machines" value={one ? '' : draft.class} choices={one ? [['', 'any']] : classes} disabled={one} note={one ? 'the machine is chosen' : undefined} wrong={errors.class} onChange={(value) => set({ class: value })} />
      <SelectField label="Machine" value={draft.machine} choices={[['', 'any of the class'], ...names]} wrong={errors.machine} onChange={(machine) => set({ machine })} />
    </div>
  )
}

/** `box`, `box (unreachable)` */
function choiceWords(machine: Machine): string {
  return isClosed(machine) ? `${printable(machine.name)} (${machine.pool?.state})` : printable(machine.name)
}
