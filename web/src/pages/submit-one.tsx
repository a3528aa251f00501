// The form for one job, with where and when it would start.
import type { JSX } from 'preact'
import { submit, tryOut } from '../api/calls'
import type { Job } from '../api/jobs'
import { go } from '../route'
import { useNow } from '../state/clock'
import { draft, EMPTY, fieldOf, meant, type DraftErrors } from '../state/draft'
import { service, status } from '../state/status'
import { useStore } from '../state/store'
import { tellDone } from '../state/toasts'
import { ProblemBox } from '../parts/bits'
import { JobFields } from '../parts/job-fields'
import { usePreview } from '../parts/preview'
import { useSending } from '../parts/sending'
import { noteText } from '../text/notes'
import { expectedStart, needs, placeOf } from '../text/place'
import { reasonOf, remedy } from '../text/waiting'
import { capital, counted } from '../text/words'

export function OneTab(): JSX.Element {
  const typed = useStore(draft)
  const home = useStore(service)?.user_home ?? ''
  const { spec, copies, errors } = meant(typed, home)
  const ready = typed.command.trim() !== '' && Object.keys(errors).length === 0 && spec.cwd !== ''
  const { answer, problem, asking } = usePreview(ready ? JSON.stringify(spec) : null, (signal) => tryOut(spec, signal))
  const field = fieldOf(problem?.body.field) ?? (problem?.body.problem === 'no_such_folder' ? 'cwd' : null)
  const shown: DraftErrors = field === null || !problem ? errors : { ...errors, [field]: capital(problem.body.want ?? problem.body.why ?? problem.body.title) }

  const { sending, onSubmit } = useSending(async () => {
    const { jobs } = await submit([spec], copies)
    const first = jobs[0]
    draft.set({ ...EMPTY, cwd: typed.cwd, project: typed.project })
    if (jobs.length === 1 && first) {
      tellDone(`Queued ${first.id}`)
      go(`#/jobs/${first.id}`)
    } else {
      tellDone(`Queued ${counted(jobs.length, 'job')}`)
      go('#/queue')
    }
  })
  return (
    <form class="submit" onSubmit={onSubmit}>
      <div class="form">
        <JobFields draft={typed} set={(change) => draft.update((before) => ({ ...before, ...change }))} errors={shown} home={home} sweep={false} />
        <div class="submit-actions">
          <button type="submit" class="button primary" disabled={!ready || sending}>{copies > 1 ? `Queue ${copies} jobs` : 'Queue job'}</button>
          <button type="button" class="button" onClick={() => draft.set(EMPTY)}>Clear</button>
        </div>
      </div>
      <aside class="panel preview" aria-label="Preview" aria-live="polite">
        <h2>What would happen</h2>
        {!ready && Object.keys(errors).length > 0 && <p class="soft">Correct the marked fields first.</p>}
        {!ready && Object.keys(errors).length === 0 && <p class="soft">Type a command to see where and when it would start.</p>}
        {problem && field === null && <ProblemBox problem={problem} />}
        {problem && field !== null && <p class="bad">{capital(problem.body.title)}.</p>}
        {answer?.jobs[0] && <Prospect job={answer.jobs[0]} />}
        {answer?.notes?.map((note) => <p key={noteText(note)} class="soft">{noteText(note)}</p>)}
        {asking && !answer && !problem && <p class="faint">Asking…</p>}
      </aside>
    </form>
  )
}

function Prospect({ job }: { job: Job }): JSX.Element {
  const now = useNow()
  const cpus = Math.max(0, ...(status.get()?.machines.map((machine) => machine.cpus) ?? []))
  // A trial has no run yet: the machine is known where it is named.
  const place = placeOf({ ...job, machine: job.machine ?? job.request.machine ?? null })
  if (job.waiting?.kind === 'next') {
    return <><p><strong>Starts now on {place === '' ? 'the CPU' : place}.</strong></p><p class="soft">Asks for {needs(job.request)}.</p></>
  }
  const start = expectedStart(job, now)
  const help = job.waiting === null ? null : remedy(job.waiting)
  return (
    <>
      <p><strong>Waits: {reasonOf(job, cpus, now)}.</strong></p>
      {job.position !== null && <p class="soft">Place {job.position} in the queue{start !== '' && `, expected to start ${start}`}.</p>}
      {job.position === null && start !== '' && <p class="soft">Expected to start {start}.</p>}
      <p class="soft">Asks for {needs(job.request)}.</p>
      {help !== null && job.waiting?.kind !== 'held' && <p>{help}</p>}
    </>
  )
}
