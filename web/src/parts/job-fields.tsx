// The fields of a new job, for single jobs and sweeps alike. Rarely used ones are folded away.
import type { ComponentChildren, JSX } from 'preact'
import type { Draft, DraftErrors } from '../state/draft'
import { CheckField, TextField } from './field'
import { PlaceFields } from './place-fields'

interface Props {
  draft: Draft
  set: (change: Partial<Draft>) => void
  errors: DraftErrors
  home: string
  sweep: boolean
  /** What comes right after the command. */
  children?: ComponentChildren
}

export function JobFields({ draft, set, errors, home, sweep, children }: Props): JSX.Element {
  const text = (field: keyof Draft, label: string, more: { placeholder?: string; note?: string; rows?: number; mono?: boolean } = {}) => (
    <TextField label={label} value={String(draft[field])} wrong={errors[field]} onInput={(value) => set({ [field]: value })} {...more} />
  )
  const elsewhere = draft.class !== '' || (draft.machine !== '' && draft.machine !== 'local')
  return (
    <>
      {text('command', 'Command', { rows: 3, mono: true, placeholder: sweep ? 'python train.py --lr {lr} --seed {seed}' : 'python train.py --lr 0.1', note: sweep ? '{name} stands for the value of a parameter' : 'goes unchanged to bash' })}
      {children}
      <div class="form-row">
        {text('cwd', 'Folder', { placeholder: home, mono: true, ...(elsewhere ? { note: 'a folder of the machine it runs on' } : {}) })}
        {!sweep && text('name', 'Name', { placeholder: 'none' })}
        {text('project', 'Project', { placeholder: 'none' })}
      </div>
      <div class="form-row">
        {text('gpus', 'GPUs', { placeholder: '1', note: '2, or 0.5 to share, or 0 for the CPU' })}
        {text('vram', 'GPU memory', { placeholder: 'a GPU of its own', note: '8G or auto: shares by memory' })}
        {text('time', 'Time limit', { placeholder: 'none', note: '90s, 4h, 1h30m' })}
        {text('priority', 'Priority', { placeholder: '0', note: 'lower runs first' })}
      </div>
      <PlaceFields draft={draft} set={set} errors={errors} />
      <div class="submit-actions">
        <CheckField label="Hold: do not start it yet" value={draft.hold} onChange={(hold) => set({ hold })} />
        <CheckField label="Unique: refuse if an identical job is there" value={draft.unique} onChange={(unique) => set({ unique })} />
      </div>
      <details>
        <summary>Which GPUs and machine parts <span class="soft">model, allowed GPUs, CPUs, memory</span></summary>
        <div>
          <div class="form-row">
            {text('model', 'GPU model', { placeholder: 'any', note: 'part of its name, as in A100' })}
            {text('on', 'Only on GPUs', { placeholder: 'any', note: '0-3,5' })}
            {text('cpus', 'CPUs', { placeholder: draft.gpus === '0' ? '1' : 'none kept' })}
            {text('ram', 'Memory', { placeholder: 'none kept', note: '16G' })}
          </div>
          <CheckField label="May use paused GPUs" value={draft.force} onChange={(force) => set({ force })} />
        </div>
      </details>
      <details>
        <summary>Order and retries <span class="soft">after, retries, copies, tags</span></summary>
        <div>
          <div class="form-row">
            {text('tags', 'Tags', { placeholder: 'none', note: 'between blanks or commas' })}
            {text('copies', 'Copies', { placeholder: '1' })}
            {text('retries', 'Retries', { placeholder: '0' })}
          </div>
          <CheckField label="Try again after a timeout too" value={draft.retryOnTimeout} onChange={(retryOnTimeout) => set({ retryOnTimeout })} />
          {errors.retryOnTimeout && <span class="bad">{errors.retryOnTimeout}</span>}
          <div class="form-row">
            {text('after', 'After these complete', { placeholder: 'no job', note: 'ids' })}
            {text('afterAny', 'After these end in any way', { placeholder: 'no job', note: 'ids' })}
          </div>
          <div class="form-row">
            {text('signal', 'Signal before the time limit', { placeholder: 'none', note: 'USR1@120s' })}
            {text('grace', 'Time to end by itself', { placeholder: 'as configured', note: '10s' })}
          </div>
        </div>
      </details>
      <details>
        <summary>Environment <span class="soft">variables, conda, venv, terminal</span></summary>
        <div>
          {text('env', 'Variables', { rows: 3, mono: true, placeholder: 'NAME=value', note: 'one a line; the rest is the environment of the owner of the service' })}
          <div class="form-row">
            {text('conda', 'Conda environment', { placeholder: 'none' })}
            {text('venv', 'Virtual environment', { placeholder: 'none', mono: true })}
            {text('gpuArg', 'Option told the GPU numbers', { placeholder: '--cuda' })}
          </div>
          <CheckField label="No terminal: pipes and an empty input" value={draft.noTty} onChange={(noTty) => set({ noTty })} />
        </div>
      </details>
      <details open={sweep}>
        <summary>Output and results <span class="soft">values taken from the output, copies</span></summary>
        <div>
          {text('extract', 'Values to take from the output', { rows: 2, mono: true, placeholder: 'loss=final loss: ([0-9.]+)', note: 'name=pattern, one a line; the last match counts' })}
          <div class="form-row">
            {text('results', 'Copy results to', { placeholder: 'not copied', mono: true, note: 'an absolute folder' })}
            {text('out', 'Another copy of the output', { placeholder: 'none', mono: true, note: 'an absolute path' })}
          </div>
        </div>
      </details>
    </>
  )
}
