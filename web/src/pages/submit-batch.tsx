// Many jobs from a text: what each entry would become, and what cannot be read, by line.
import type { JSX } from 'preact'
import { useState } from 'preact/hooks'
import { importText } from '../api/calls'
import type { JobSpec } from '../api/jobs'
import type { ImportFormat, ImportReport, Taken } from '../api/sweeps'
import { go } from '../route'
import { service } from '../state/status'
import { Store, useStore } from '../state/store'
import { tellDone } from '../state/toasts'
import { JobId, ProblemBox } from '../parts/bits'
import { CheckField, Field, TextField } from '../parts/field'
import { usePreview } from '../parts/preview'
import { useSending } from '../parts/sending'
import { capital, counted, firstLine, printable, quoted } from '../text/words'
import { noteText } from '../text/notes'

const FORMATS: [ImportFormat | '', string][] = [
  ['', 'Find out by itself'],
  ['lines', 'Lines: a command each'],
  ['esy', 'Batch: name;;outfile;;command;;;'],
  ['csv', 'CSV: priority,script,conda_env,arguments,allowed_gpus'],
  ['jsonl', 'JSON lines: an export of nexus'],
]

const FORMAT_WORDS: Record<string, string> = { lines: 'lines', csv: 'CSV', jsonl: 'JSON lines', esy: 'batch text' }

const PLACEHOLDER = `baseline;;/tmp/baseline.log;;python -u train.py --lr 0.1;;;
small;;/tmp/small.log;;python -u train.py --lr 0.01;;;`

const text = new Store('')

export function BatchTab(): JSX.Element {
  const typed = useStore(text)
  const home = useStore(service)?.user_home ?? ''
  const [format, setFormat] = useState<ImportFormat | ''>('')
  const [cwd, setCwd] = useState('')
  const [again, setAgain] = useState(false)
  const body = { text: typed, format: format === '' ? null : format, cwd: cwd.trim() === '' ? home : cwd.trim(), again }
  const ready = typed.trim() !== '' && body.cwd !== ''
  const { answer, problem, asking } = usePreview(ready ? JSON.stringify(body) : null, (signal) => importText({ ...body, dry_run: true }, signal))
  const planned = answer?.entries.filter((entry) => entry.fate === 'planned').length ?? 0

  const { sending, onSubmit } = useSending(async () => {
    const report = await importText({ ...body, dry_run: false })
    const queued = report.entries.filter((entry) => entry.fate === 'queued').length
    tellDone(`Queued ${counted(queued, 'job')}`)
    text.set('')
    go('#/queue')
  })
  return (
    <form class="submit" onSubmit={onSubmit}>
      <div class="form">
        <TextField label="Jobs" value={typed} onInput={(value) => text.set(value)} rows={14} mono placeholder={PLACEHOLDER} />
        <div class="form-row">
          <Field label="Format">
            {(id) => (
              <select id={id} value={format} onChange={(event) => setFormat((FORMATS.find(([name]) => name === event.currentTarget.value) ?? ['', ''])[0])}>
                {FORMATS.map(([name, label]) => <option key={name} value={name}>{label}</option>)}
              </select>
            )}
          </Field>
          <TextField label="Folder" value={cwd} onInput={setCwd} placeholder={home} mono />
        </div>
        <CheckField label="Take every entry, even those that are there already" value={again} onChange={setAgain} />
        <div class="submit-actions">
          <button type="submit" class="button primary" disabled={planned === 0 || sending}>{planned === 0 ? 'Queue jobs' : `Queue ${counted(planned, 'job')}`}</button>
        </div>
      </div>
      <aside class="panel preview" aria-label="Preview" aria-live="polite">
        <h2>{answer ? counted(planned, 'new job') : 'What would be queued'}</h2>
        {!ready && <p class="soft">Type or paste jobs to see what each becomes.</p>}
        {asking && ready && !answer && !problem && <p class="faint">Asking…</p>}
        {problem && <ProblemBox problem={problem} />}
        {answer && <Report report={answer} />}
      </aside>
    </form>
  )
}

function Report({ report }: { report: ImportReport }): JSX.Element {
  return (
    <>
      {report.format !== null && <p class="soft">Read as {FORMAT_WORDS[report.format] ?? report.format}.</p>}
      {report.notes.map((note) => <p key={noteText(note)} class="soft">{noteText(note)}</p>)}
      {report.stopped && <p class="bad">{capital(report.stopped.title)}</p>}
      <ol>
        {report.refused.map((line) => <li key={`r${line.line}`} class="bad">Line {line.line}: {printable(line.error)}</li>)}
        {report.doubtful.map((line) => <li key={`d${line.line}`} class="warn-text">Line {line.line}: {printable(line.error)}</li>)}
        {report.entries.map((entry) => <li key={entry.line}><Fate entry={entry} /></li>)}
      </ol>
    </>
  )
}

function commandText(spec: JobSpec): string {
  return 'shell' in spec.command ? spec.command.shell : spec.command.argv.map(quoted).join(' ')
}

function Fate({ entry }: { entry: Taken }): JSX.Element {
  const line = <span class="faint">Line {entry.line}</span>
  switch (entry.fate) {
    case 'planned': {
      const { spec } = entry
      const more = [spec.name, spec.out && `to ${spec.out}`, spec.conda && `in ${spec.conda}`, spec.priority ? `priority ${spec.priority}` : undefined].filter(Boolean)
      return <>{line} <span class="soft">{printable(more.join(', '))}</span><code>{firstLine(commandText(spec))}</code></>
    }
    case 'queued':
      return <>{line} queued as <JobId id={entry.id} /></>
    case 'changed':
      return <>{line} changes <JobId id={entry.id} />: {entry.changes.map((change) => `${change.what} ${change.from} → ${change.to}`).join(', ')}</>
    case 'known':
      return <>{line} <span class="soft">is there already:</span> <JobId id={entry.id} /> <span class="soft">({entry.state})</span></>
    case 'repeated':
      return <>{line} <span class="soft">repeats line {entry.of}</span></>
    case 'refused':
      return <>{line} <span class="bad">{printable(entry.error)}</span></>
  }
}
