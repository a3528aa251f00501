// The frame of the page: navigation, the page that the address names, and what stands over all of them.
import type { JSX } from 'preact'
import { useEffect } from 'preact/hooks'
import { route } from './route'
import { connection, tryNow } from './state/live'
import { service, status } from './state/status'
import { useStore } from './state/store'
import { AskDialog } from './parts/dialog'
import { EditDialog } from './parts/edit'
import { Brand } from './parts/icons'
import { KeysHelp } from './parts/keys'
import { Nav } from './parts/nav'
import { Toasts } from './parts/toasts'
import { HistoryPage } from './pages/history'
import { JobPage } from './pages/job'
import { MachinesPage } from './pages/machines'
import { OverviewPage } from './pages/overview'
import { QueuePage } from './pages/queue'
import { RunningPage } from './pages/running'
import { SubmitPage } from './pages/submit'
import { SweepPage } from './pages/sweep'
import { SweepsPage } from './pages/sweeps'
import { Empty } from './parts/bits'
import { capital, printable } from './text/words'

export function App(): JSX.Element {
  const line = useStore(connection)
  if (line === 'logged-out') return <LoggedOut />
  return (
    <>
      <div class="shell">
        <Nav />
        <main class="main">
          {line === 'lost' ? <LostBanner /> : line === 'unproved' ? <UnprovedBanner /> : <><TroubleBanner /><StandstillBanner /></>}
          <Here />
        </main>
      </div>
      <Toasts />
      <EditDialog />
      <AskDialog />
      <KeysHelp />
    </>
  )
}

/** What the tab is called: the page, or the job or sweep that is looked at. */
function titleOf(page: string | undefined, name: string | undefined): string {
  if (name !== undefined) return `${name} · nexus`
  if (page === 'submit') return 'New job · nexus'
  return page === undefined ? 'nexus' : `${capital(page)} · nexus`
}

function Here(): JSX.Element {
  const { path, query } = useStore(route)
  const [page, name] = path
  useEffect(() => void (document.title = printable(titleOf(page, name))), [page, name])
  switch (page) {
    case undefined:
      return <OverviewPage />
    case 'queue':
      return <QueuePage />
    case 'running':
      return <RunningPage />
    case 'history':
      return <HistoryPage />
    case 'sweeps':
      return name === undefined ? <SweepsPage /> : <SweepPage key={name} name={name} />
    case 'jobs':
      if (name !== undefined) return <JobPage key={name} id={name} view={query.get('view')} />
      break
    case 'submit':
      return <SubmitPage />
    case 'machines':
      return <MachinesPage />
  }
  return (
    <div class="page scrolls">
      <Empty title="There is no such page"><a class="link" href="#/">Go to the overview</a></Empty>
    </div>
  )
}

function LostBanner(): JSX.Element {
  return (
    <div class="banner" role="alert">
      <strong>The service does not answer.</strong>
      <span>Jobs go on without it. This page comes back by itself; if it was stopped: <code>nexus start</code></span>
      <button type="button" class="button small" onClick={tryNow}>Try now</button>
    </div>
  )
}

/** What a person has to mend before any job is taken. The status may be unreadable then: the service itself tells too. */
function TroubleBanner(): JSX.Element | null {
  const ofStatus = useStore(status)?.trouble
  const ofService = useStore(service)?.trouble
  const trouble = ofStatus ?? ofService
  if (trouble === undefined) return null
  return (
    <div class="banner" role="alert">
      <strong>{printable(capital(trouble.title))}.</strong>
      {trouble.hint !== null && <span><code>{printable(trouble.hint)}</code></span>}
    </div>
  )
}

/** Why jobs wait that only a person can let start. */
function StandstillBanner(): JSX.Element | null {
  const seen = useStore(status)
  const standstill = seen?.standstill
  if (standstill === undefined || seen?.trouble !== undefined) return null
  return (
    <div class="banner" role="alert">
      <strong>{printable(capital(standstill.title))}.</strong>
      {standstill.reasons.map((reason) => (
        <span key={reason.text}>{printable(capital(reason.text))}: <code>{printable(reason.hint)}</code></span>
      ))}
    </div>
  )
}

function UnprovedBanner(): JSX.Element {
  return (
    <div class="banner" role="alert">
      <strong>Another program answers at this address.</strong>
      <span>It could not prove that it is nexus, and was sent no secret. Do not load this page anew; see <code>nexus status</code></span>
      <button type="button" class="button small" onClick={tryNow}>Try now</button>
    </div>
  )
}

function LoggedOut(): JSX.Element {
  return (
    <main class="gate">
      <div>
        <Brand />
        <h1>nexus does not know this browser</h1>
        <p>This page is opened by a link that works once. Make one on the machine where nexus runs:</p>
        <div class="command-box"><pre>nexus web</pre></div>
        <p class="soft">A browser that was let in needs a new link when the page was closed for longer than <code>web.session</code> (12 hours), when it was revoked, and once after an update from a nexus that used a cookie.</p>
        <p><button type="button" class="button" onClick={tryNow}>Try again</button></p>
      </div>
    </main>
  )
}
