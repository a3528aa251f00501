// Starts the page.
import { render } from 'preact'
import { App } from './app'
import { startKeys } from './parts/keys'
import { startRoute } from './route'
import { startClock } from './state/clock'
import { startLive } from './state/live'
import { startReadings } from './state/readings'
import { startStatus } from './state/status'
import { startTheme } from './state/theme'
import './style/base.css'
import './style/fields.css'
import './style/shell.css'
import './style/over.css'
import './style/parts.css'
import './style/lists.css'
import './style/overview.css'
import './style/job-lists.css'
import './style/sweeps.css'
import './style/submit.css'
import './style/machines.css'
import './style/job.css'

startTheme()
startRoute()
startClock()
startKeys()
startReadings()
startStatus()
startLive()

const root = document.getElementById('app')
if (root) render(<App />, root)
