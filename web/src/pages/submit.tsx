// New jobs: one, a sweep, or a batch of text. Each shows beforehand what would come of it.
import type { JSX } from 'preact'
import { replaceQuery, route } from '../route'
import { useStore } from '../state/store'
import { BatchTab } from './submit-batch'
import { OneTab } from './submit-one'
import { SweepTab } from './submit-sweep'

const TABS = [['one', 'Job'], ['sweep', 'Sweep'], ['batch', 'Batch']] as const

export function SubmitPage(): JSX.Element {
  const { query } = useStore(route)
  const tab = TABS.find(([name]) => name === query.get('tab'))?.[0] ?? 'one'
  return (
    <div class="page scrolls">
      <div class="head">
        <h1>{tab === 'one' ? 'New job' : tab === 'sweep' ? 'New sweep' : 'New batch'}</h1>
        <div class="segments" role="tablist" aria-label="What to submit">
          {TABS.map(([name, label]) => (
            <button key={name} type="button" role="tab" aria-selected={tab === name} onClick={() => replaceQuery(new URLSearchParams(name === 'one' ? {} : { tab: name }))}>{label}</button>
          ))}
        </div>
      </div>
      {tab === 'one' && <OneTab />}
      {tab === 'sweep' && <SweepTab />}
      {tab === 'batch' && <BatchTab />}
    </div>
  )
}
