// Dialogs for machines: the class one goes to, and what becomes of the jobs on one that is to go.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { actOnMachine } from '../api/calls'
import { Problem } from '../api/http'
import { Store, useStore } from '../state/store'
import { attempt, tellDone, tellProblem } from '../state/toasts'
import { toProblem } from '../state/use'
import { USUAL_CLASS } from '../text/machines'
import { capital, printable } from '../text/words'
import { ProblemBox } from './bits'
import { Dialog, ask } from './dialog'
import { Field } from './field'

type Open =
  | { kind: 'move'; name: string; from: string | null; classes: string[] }
  | { kind: 'busy'; name: string; problem: Problem }

const open = new Store<Open | null>(null)

export function moveMachine(name: string, from: string | null, classes: string[]): void {
  open.set({ kind: 'move', name, from, classes })
}

/** One with jobs on it stays, until somebody says what becomes of them. */
export async function removeMachine(name: string): Promise<void> {
  const text = 'No job runs there any more. Its folder there stays, and it can be added again.'
  if (!(await ask({ title: `Remove ${name} from the pool?`, text, action: 'Remove' }))) return
  try {
    await actOnMachine('rm', name)
    tellDone(`Removed ${name}`)
  } catch (error) {
    if (error instanceof Problem && error.body.problem === 'machine_busy') open.set({ kind: 'busy', name, problem: error })
    else tellProblem(error)
  }
}

export function PoolDialogs(): JSX.Element | null {
  const shown = useStore(open)
  const close = () => open.set(null)
  if (shown === null) return null
  return shown.kind === 'move' ? <MoveDialog {...shown} close={close} /> : <BusyDialog {...shown} close={close} />
}

function MoveDialog({ name, from, classes, close }: { name: string; from: string | null; classes: string[]; close: () => void }): JSX.Element {
  const [typed, setTyped] = useState(from ?? '')
  const [problem, setProblem] = useState<Problem | null>(null)
  const move = async (event: Event) => {
    event.preventDefault()
    try {
      await actOnMachine('mv', name, { class: typed.trim() })
      tellDone(`${name} is of class ${typed.trim()} now`)
      close()
    } catch (error) {
      setProblem(toProblem(error))
    }
  }
  const wrong = problem?.body.field === 'class' ? capital(problem.body.want ?? problem.body.title) : undefined
  return (
    <Dialog label={`Move ${name} to a class`} onClose={close}>
      <form onSubmit={move}>
        <div class="dialog-body">
          <h2>Move {printable(name)} to a class</h2>
          <Field label="Class" note={`one that is there, or a new one; jobs that name none run on machines of ${USUAL_CLASS}`} wrong={wrong}>
            {(id, described) => (
              <>
                <input id={id} aria-describedby={described} type="text" list={`${id}-known`} value={typed} spellcheck={false} autocomplete="off" autoFocus onInput={(event) => setTyped(event.currentTarget.value)} />
                <datalist id={`${id}-known`}>{classes.map((known) => <option key={known} value={known} />)}</datalist>
              </>
            )}
          </Field>
          <p class="soft">Jobs that run there go on.</p>
          {problem && wrong === undefined && <ProblemBox problem={problem} />}
        </div>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={close}>Cancel</button>
          <button type="submit" class="button primary" disabled={typed.trim() === '' || typed.trim() === from}>Move</button>
        </div>
      </form>
    </Dialog>
  )
}

function BusyDialog({ name, problem, close }: { name: string; problem: Problem; close: () => void }): JSX.Element {
  const remove = (how: { drain: true } | { kill: true }, done: string) => {
    close()
    void attempt(() => actOnMachine('rm', name, how), done)
  }
  const { title, why } = problem.body
  return (
    <Dialog label={title} onClose={close}>
      <div class="dialog-body">
        <h2>{printable(title)}</h2>
        {why && <p class="soft">{capital(printable(why))}</p>}
        <p>It can go when its last job has ended, and takes no new ones until then. Or what runs there is killed now.</p>
      </div>
      <div class="dialog-actions">
        <button type="button" class="button" autoFocus onClick={close}>Cancel</button>
        <button type="button" class="button" onClick={() => remove({ drain: true }, `${name} goes when its last job has ended`)}>Wait for the end</button>
        <button type="button" class="button danger" onClick={() => remove({ kill: true }, `${name} goes, and what runs there is killed`)}>Kill and remove</button>
      </div>
    </Dialog>
  )
}
