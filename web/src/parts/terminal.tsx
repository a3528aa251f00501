// The job's terminal over a WebSocket. What it prints goes to xterm.js alone; links in it lead nowhere.
//
// xterm.js is a part of the page's one script. A script that is loaded when the first terminal is opened would come from whatever
// program has the port by then (docs/design/0015-proof-of-the-service.md).
import type { JSX } from 'preact'
import { useEffect, useRef, useState } from 'preact/hooks'
import { FitAddon } from '@xterm/addon-fit'
import { Terminal as Xterm } from '@xterm/xterm'
import '@xterm/xterm/css/xterm.css'
import { socketProtocols } from '../api/session'
import { connection } from '../state/live'
import { useStore } from '../state/store'
import { isDark } from '../state/theme'
import { printable } from '../text/words'
import { cssColour } from './chart'

type Line = 'connecting' | 'open' | 'ended' | 'lost' | 'refused'

type Said =
  | { kind: 'hello'; tty: boolean }
  | { kind: 'left_out'; bytes: number }
  | { kind: 'refused'; error: string }
  | { kind: 'ended'; exit_code: number | null }

const RETRY_MS = 1000

export function TerminalView({ id }: { id: string }): JSX.Element {
  const holder = useRef<HTMLDivElement>(null)
  const screen = useRef<Xterm | null>(null)
  const [line, setLine] = useState<Line>('connecting')
  const [said, setSaid] = useState('')
  const [turn, setTurn] = useState(0)
  const dark = useStore(isDark)
  const service = useStore(connection)

  useEffect(() => {
    const element = holder.current
    if (!element) return
    setLine('connecting')
    setSaid('')
    let over = false
    const end = openTerminal(element, id, {
      screen: (terminal) => (screen.current = terminal),
      line: (next, words) => {
        if (over) return
        setLine((before) => (before === 'ended' || before === 'refused' ? before : next))
        if (words !== undefined) setSaid(words)
      },
    })
    return () => {
      over = true
      end()
      screen.current = null
    }
  }, [id, turn])

  // The service came back: so does the terminal.
  useEffect(() => {
    if (service !== 'open' || line !== 'lost') return
    const timer = window.setTimeout(() => setTurn((before) => before + 1), RETRY_MS)
    return () => window.clearTimeout(timer)
  }, [service, line])
  useEffect(() => {
    if (screen.current) screen.current.options.theme = colours()
  }, [dark])

  const words = { connecting: 'Connecting…', open: 'Connected: what you type goes to the job', ended: 'The job has ended', lost: 'The line is cut; it comes back by itself', refused: 'The terminal cannot be had' }
  return (
    <section class="terminal-view" aria-label="Terminal">
      <div class="log-tools">
        <span class={line === 'open' ? 'live' : 'soft'}>{line === 'open' && <i />}{words[line]}</span>
        <span class="soft cut">{printable(said)}</span>
        <span class="grow" />
        {(line === 'lost' || line === 'refused') && <button type="button" class="button small" onClick={() => setTurn(turn + 1)}>Connect again</button>}
      </div>
      <div class="terminal-screen" ref={holder} />
    </section>
  )
}

function colours(): Record<string, string> {
  const named = ['black', 'red', 'green', 'yellow', 'blue', 'magenta', 'cyan', 'white']
  const theme: Record<string, string> = {
    background: cssColour('--log-bg'), foreground: cssColour('--log-text'), cursor: cssColour('--accent'), selectionBackground: cssColour('--accent') + '55',
  }
  named.forEach((name, place) => {
    theme[name] = cssColour(`--ansi-${place}`)
    theme[`bright${name.charAt(0).toUpperCase()}${name.slice(1)}`] = cssColour(`--ansi-${place + 8}`)
  })
  return theme
}

interface Tell {
  screen: (terminal: Xterm) => void
  line: (line: Line, words?: string) => void
}

/** Gives the function that ends it. */
function openTerminal(element: HTMLElement, id: string, tell: Tell): () => void {
  let stopped = false
  let cleanUp = () => {}
  void socketProtocols().then((protocols) => {
    if (stopped) return
    const terminal = new Xterm({
      fontFamily: cssColour('--mono'),
      fontSize: 13,
      scrollback: 5000,
      // What comes is as the job wrote it: a newline alone ends a line.
      convertEol: true,
      theme: colours(),
      // Where a link of the output leads is the job's word alone: none can be followed from here.
      linkHandler: { activate: () => {}, allowNonHttpProtocols: false },
    })
    const fit = new FitAddon()
    terminal.loadAddon(fit)
    terminal.open(element)
    fit.fit()
    tell.screen(terminal)
    const socket = connect(id, protocols, terminal, tell)
    const sizes = new ResizeObserver(() => fit.fit())
    sizes.observe(element)
    terminal.focus()
    cleanUp = () => {
      sizes.disconnect()
      socket.close()
      terminal.dispose()
    }
  }).catch(() => stopped || tell.line('lost'))
  return () => {
    stopped = true
    cleanUp()
  }
}

function connect(id: string, protocols: string[], terminal: Xterm, tell: Tell): WebSocket {
  const scheme = window.location.protocol === 'https:' ? 'wss' : 'ws'
  const socket = new WebSocket(`${scheme}://${window.location.host}/v1/jobs/${id}/terminal`, protocols)
  socket.binaryType = 'arraybuffer'
  const isOpen = () => socket.readyState === WebSocket.OPEN
  const sendSize = () => socket.send(JSON.stringify({ columns: terminal.cols, rows: terminal.rows }))
  socket.onopen = sendSize
  terminal.onResize(() => isOpen() && sendSize())
  const encoder = new TextEncoder()
  terminal.onData((typed) => isOpen() && socket.send(encoder.encode(typed)))
  terminal.onBinary((typed) => isOpen() && socket.send(Uint8Array.from(typed, (letter) => letter.charCodeAt(0))))
  socket.onmessage = (message: MessageEvent<string | ArrayBuffer>) => {
    if (message.data instanceof ArrayBuffer) terminal.write(new Uint8Array(message.data))
    else hear(JSON.parse(message.data) as Said, tell)
  }
  socket.onclose = () => tell.line('lost')
  return socket
}

function hear(said: Said, tell: Tell): void {
  switch (said.kind) {
    case 'hello':
      return tell.line('open', said.tty ? '' : 'It has no terminal: it reads nothing of what is typed.')
    case 'left_out':
      return tell.line('open', `${said.bytes} bytes were left out: this page was too slow.`)
    case 'refused':
      return tell.line('refused', said.error)
    case 'ended':
      return tell.line('ended', said.exit_code === null ? '' : `Exit ${said.exit_code}.`)
  }
}
