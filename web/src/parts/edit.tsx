// The dialog that changes a job. Only what was changed is sent; the service reads the values.
import type { JSX } from 'preact'
import { useEffect, useState } from 'preact/hooks'
import { editJob, readJob, type JobEdit } from '../api/calls'
import { Problem } from '../api/http'
import { isWaiting, type JobDetail, type JobRequest } from '../api/jobs'
import { status } from '../state/status'
import { useStore } from '../state/store'
import { tellDone, tellProblem } from '../state/toasts'
import { toProblem } from '../state/use'
import { signalName } from '../text/ended'
import { wanted } from '../text/place'
import { limit } from '../text/time'
import { capital, indexList, memoryTyped } from '../text/words'
import { edited } from './actions'
import { ProblemBox } from './bits'
import { Dialog } from './dialog'
import { TextField } from './field'

type Options = Record<string, string>

/** The options as they would be typed, by the names the service knows. */
function optionsOf(job: JobDetail): Options {
  const { request } = job
  const running: Options = {
    priority: String(job.priority),
    time: request.time_seconds ? limit(request.time_seconds) : '',
    tags: job.tags.join(','),
  }
  if (!isWaiting(job.state)) return running
  return {
    ...running,
    gpus: String(request.gpus ?? 1),
    vram: request.vram_mib === 'auto' ? 'auto' : request.vram_mib ? memoryTyped(request.vram_mib) : '',
    cpus: request.cpus == null ? '' : String(request.cpus),
    ram: request.ram_mib ? memoryTyped(request.ram_mib) : '',
    on: request.on ? indexList(request.on) : '',
    'gpu-model': request.gpu_model ?? '',
    ...placeOptions(request),
    signal: request.signal ? `${signalName(request.signal.signal)}@${limit(request.signal.before_seconds)}` : '',
    retries: String(job.retries),
    after: job.after.join(','),
    'after-any': job.after_any.join(','),
    name: job.name ?? '',
    project: job.project ?? '',
    cwd: job.cwd,
    conda: job.conda ?? '',
    venv: job.venv ?? '',
    results: job.results_state === 'none' ? (job.results ?? '').replace(/\/[^/]*$/, '') : '',
  }
}

/** Where there is one machine there is nothing to choose. */
function placeOptions(request: JobRequest): Options {
  if ((status.get()?.machines.length ?? 1) < 2 && wanted(request) === null) return {}
  return { class: request.class ?? '', machine: request.machine ?? '' }
}

const LABELS: Record<string, string> = {
  priority: 'Priority (low first)', time: 'Time limit', tags: 'Tags', gpus: 'GPUs', vram: 'GPU memory', cpus: 'CPUs', ram: 'Memory',
  on: 'Only on GPUs', 'gpu-model': 'GPU model', class: 'Class of machines', machine: 'Machine', signal: 'Signal before the end', retries: 'Retries', after: 'After jobs', 'after-any': 'After the end of',
  name: 'Name', project: 'Project', cwd: 'Folder', conda: 'Conda environment', venv: 'Virtual environment', results: 'Copy results to',
}

export function EditDialog(): JSX.Element | null {
  const id = useStore(edited)
  const [job, setJob] = useState<JobDetail | null>(null)
  useEffect(() => {
    setJob(null)
    if (id === null) return
    readJob(id).then(setJob, (error: unknown) => {
      edited.set(null)
      tellProblem(error)
    })
  }, [id])
  if (job === null || id !== job.id) return null
  return <EditForm key={id} job={job} close={() => edited.set(null)} />
}

function EditForm({ job, close }: { job: JobDetail; close: () => void }): JSX.Element {
  const [before] = useState(() => optionsOf(job))
  const [options, setOptions] = useState(before)
  const [command, setCommand] = useState(job.command)
  const [problem, setProblem] = useState<Problem | null>(null)
  const waits = isWaiting(job.state)
  const save = async (event: Event) => {
    event.preventDefault()
    const changed = Object.entries(options).filter(([name, value]) => value.trim() !== before[name])
    const edit: JobEdit = { options: Object.fromEntries(changed.map(([name, value]) => [name, value.trim()])) }
    if (command !== job.command) edit.command = { shell: command }
    if (changed.length === 0 && edit.command === undefined) return close()
    try {
      await editJob(job.id, edit)
      tellDone(`Changed ${job.id}`)
      close()
    } catch (error) {
      setProblem(toProblem(error))
    }
  }
  const field = problem?.body.field
  return (
    <Dialog label={`Edit ${job.id}`} wide onClose={close}>
      <form onSubmit={save}>
        <div class="dialog-body">
          <h2>Edit <span class="mono">{job.id}</span></h2>
          {!waits && <p class="soft">It runs: only priority, time limit and tags can be changed.</p>}
          {waits && (job.argv === null
            ? <TextField label="Command" value={command} onInput={setCommand} rows={3} mono />
            : <p class="soft">Its command is an exact list of words and is changed with <code>nexus edit {job.id}</code>.</p>)}
          <div class="form-row">
            {Object.keys(options).map((name) => (
              <TextField key={name} label={LABELS[name] ?? name} value={options[name] ?? ''} wrong={field === name ? capital(problem?.body.want ?? '') : undefined} onInput={(value) => setOptions({ ...options, [name]: value })} />
            ))}
          </div>
          {problem && (field === undefined || options[field] === undefined) && <ProblemBox problem={problem} />}
        </div>
        <div class="dialog-actions">
          <button type="button" class="button" onClick={close}>Cancel</button>
          <button type="submit" class="button primary">Save</button>
        </div>
      </form>
    </Dialog>
  )
}
