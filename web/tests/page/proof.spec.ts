// Who takes the port while the service is away is sent no secret, and the tab comes back by itself.
import assert from 'node:assert/strict'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import { connect } from 'node:net'
import type { Page } from 'playwright-core'
import { pageTest, goTo, shown, until, type World } from './harness'

interface Heard {
  method: string
  path: string
  headers: Record<string, string>
}

/** Another program at the service's port. Writes down all that it is sent, and answers as it likes. */
class Impostor {
  readonly heard: Heard[] = []
  private readonly server: Server
  private readonly port: number

  constructor(port: number, answer: { status: number; body: string }) {
    this.port = port
    this.server = createServer((request, response) => {
      const headers = Object.entries(request.headers).map(([name, value]) => [name, String(value)])
      this.heard.push({ method: request.method ?? '', path: request.url ?? '', headers: Object.fromEntries(headers) as Record<string, string> })
      response.writeHead(answer.status, { 'content-type': 'application/json' }).end(answer.body)
    })
    this.server.on('upgrade', (request, socket) => {
      this.heard.push({ method: 'UPGRADE', path: request.url ?? '', headers: request.headers as Record<string, string> })
      socket.destroy()
    })
  }

  async begin(): Promise<this> {
    await new Promise<void>((resolve) => this.server.listen(this.port, '127.0.0.1', resolve))
    return this
  }

  async end(): Promise<void> {
    this.server.closeAllConnections()
    await new Promise((resolve) => this.server.close(resolve))
  }
}

const portOf = (page: Page): number => Number(new URL(page.url()).port)
const storedKeys = (page: Page): Promise<string> => page.evaluate(() => localStorage.getItem('nexus.keys') ?? '')

/** No request may carry a key, a session, or a cookie. */
function assertNoSecret(heard: Heard[], keys: string): void {
  for (const { method, path, headers } of heard) {
    assert.deepEqual([headers.authorization, headers.cookie, headers['sec-websocket-protocol']], [undefined, undefined, undefined], path)
    assert.match(`${method} ${path}`, /^GET \/v1\/web\/proof\?key=[0-9a-f]{16}&nonce=[0-9a-f]{32}$/)
  }
  const all = JSON.stringify(heard)
  for (const { key } of JSON.parse(keys) as { key: string }[]) assert.equal(all.includes(key), false, 'a key was sent')
}

const FORGED = JSON.stringify({ challenge: '0'.repeat(80), proof: '0'.repeat(64) })

for (const [how, status, body, words] of [
  ['forges a proof', 200, FORGED, 'Another program answers at this address.'],
  ['knows nobody', 401, '{"problem":"not_in","title":"who are you"}', 'nexus does not know this browser'],
  ['answers nonsense', 200, '<html>', 'The service does not answer.'],
] as const) {
  pageTest(`an idle tab sends no secret to a program that ${how}, and comes back`, async (world) => {
    const page = await world.open()
    const id = world.nexus('add', '--name', 'survivor', 'while read line; do echo "heard $line"; done')
    await goTo(page, `#/jobs/${id}?view=terminal`)
    await shown(page.getByText('Connected: what you type goes to the job'))
    const keys = await storedKeys(page)
    world.nexus('stop', '--keep-jobs')
    await shown(page.getByText('The service does not answer.'))
    const impostor = await new Impostor(portOf(page), { status, body }).begin()
    try {
      await shown(page.getByText(words))
      await until('it was asked a few times', () => impostor.heard.length >= 3)
    } finally {
      await impostor.end()
    }
    world.nexus('start')
    await shown(page.getByText('Connected: what you type goes to the job'))
    assertNoSecret(impostor.heard, keys)
  })
}

pageTest('the first terminal of a tab loads nothing from a program that took the port', async (world) => {
  const page = await world.open()
  const id = world.nexus('add', 'while read line; do echo "heard $line"; done')
  await goTo(page, `#/jobs/${id}`)
  await shown(page.getByRole('button', { name: 'Terminal', exact: true }))
  const keys = await storedKeys(page)
  world.nexus('stop', '--keep-jobs')
  await shown(page.getByText('The service does not answer.'))
  const impostor = await new Impostor(portOf(page), { status: 200, body: FORGED }).begin()
  try {
    await shown(page.getByText('Another program answers at this address.'))
    await page.getByRole('button', { name: 'Terminal', exact: true }).click()
    await shown(page.getByText('The line is cut; it comes back by itself'))
    const before = impostor.heard.length
    await until('it was asked again', () => impostor.heard.length >= before + 2)
  } finally {
    await impostor.end()
  }
  world.nexus('start')
  await shown(page.getByText('Connected: what you type goes to the job'))
  // The browser may ask for the icon of the tab, which is a picture and runs nothing.
  assertNoSecret(impostor.heard.filter(({ path }) => path !== '/icon.svg'), keys)
})

pageTest('a service worker of a program that had the port is gone soon after the service is back', async (world) => {
  const context = await world.context()
  const page = await world.enter(context)
  const at = new URL('/', page.url()).href
  await page.close()
  world.nexus('stop')
  const visit = await context.newPage()
  const end = await serveWorker(Number(new URL(at).port))
  try {
    await visit.goto(at)
    await visit.waitForFunction(() => navigator.serviceWorker.controller !== null)
    await visit.reload()
    await shown(visit.getByText('the worker answers'))
  } finally {
    await end()
  }
  world.nexus('start')
  // The worker still answers this one visit. Behind it the browser looks for a new version of the worker.
  await visit.goto(at)
  await shown(visit.locator('.shell'))
  assert.equal(await visit.evaluate(async () => (await navigator.serviceWorker.getRegistrations()).length), 0)
  assert.deepEqual(await visit.evaluate(() => caches.keys()), [])
})

/** Another program at the port: its page registers a service worker that answers all requests for pages. */
async function serveWorker(port: number): Promise<() => Promise<void>> {
  const worker = `
    self.addEventListener('install', (event) => event.waitUntil(caches.open('own').then(() => self.skipWaiting())))
    self.addEventListener('activate', (event) => event.waitUntil(self.clients.claim()))
    self.addEventListener('fetch', (event) => {
      if (event.request.mode !== 'navigate') return
      event.respondWith(new Response('<p>the worker answers</p>', { headers: { 'content-type': 'text/html' } }))
    })`
  const server = createServer((request, response) => {
    const isWorker = request.url === '/deep/worker.js'
    const type = isWorker ? 'text/javascript' : 'text/html'
    response.writeHead(200, { 'content-type': type, 'service-worker-allowed': '/' })
    response.end(isWorker ? worker : `<script>void navigator.serviceWorker.register('/deep/worker.js', { scope: '/' })</script>`)
  })
  await new Promise<void>((resolve) => server.listen(port, '127.0.0.1', resolve))
  return async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

pageTest('what a tab sends before it knows that the service is away is worth nothing', async (world) => {
  const page = await world.open()
  const keys = await storedKeys(page)
  const port = portOf(page)
  const seen: string[] = []
  page.on('request', (request) => void (request.headers().authorization && seen.push(request.headers().authorization ?? '')))
  await goTo(page, '#/history')
  await until('a request showed a session', () => seen.length > 0)
  world.nexus('restart')
  const answers = await Promise.all(seen.map((authorization) => ask(port, authorization)))
  assert.ok(answers.every((status) => status === 401), answers.join())
  for (const { key } of JSON.parse(keys) as { key: string }[]) assert.equal(seen.join().includes(key), false)
})

function ask(port: number, authorization: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`GET /v1/status HTTP/1.1\r\nhost: 127.0.0.1:${port}\r\nauthorization: ${authorization}\r\nconnection: close\r\n\r\n`))
    let text = ''
    socket.on('data', (part) => (text += part.toString()))
    socket.on('end', () => resolve(Number(text.split(' ')[1])))
    socket.on('error', reject)
  })
}

/** As if so much time had passed since the last proofs. */
function age(world: World, seconds: number): void {
  const file = world.file('web.browsers')
  const text = readFileSync(file, 'utf8').replace(/"proved_s":(\d+)/g, (_, at: string) => `"proved_s":${Number(at) - seconds}`)
  writeFileSync(file, text)
}

pageTest('an open tab stays in for longer than a closed browser', async (world) => {
  const [opened, closed] = [await world.context(), await world.context()]
  const tab = await world.enter(opened)
  const other = await world.enter(closed)
  const at = new URL('/', tab.url()).href
  await other.close()
  const again = await closed.newPage()
  await again.goto(at)
  await shown(again.locator('.shell'))
  await again.close()
  world.nexus('stop')
  await shown(tab.getByText('The service does not answer.'))
  age(world, 13 * 3600)
  world.nexus('start')
  await tab.getByText('The service does not answer.').waitFor({ state: 'detached' })
  const late = await closed.newPage()
  await late.goto(at)
  await shown(late.getByRole('heading', { name: 'nexus does not know this browser' }))
  await shown(late.getByText('nexus web', { exact: true }))
  // The open tab got its browser a new key: another tab of it is in.
  const second = await opened.newPage()
  await second.goto(at)
  await shown(second.locator('.shell'))
  await shown(tab.locator('.shell'))
})

pageTest('a browser that is revoked is out at once, and in again by a link', async (world) => {
  const context = await world.context()
  const page = await world.enter(context)
  const [browser] = JSON.parse(world.nexus('web', 'browsers', '--json')) as { id: string; name: string }[]
  assert.match(browser?.name ?? '', /^Chrome on /)
  world.nexus('web', 'revoke', browser?.id ?? '')
  await shown(page.getByRole('heading', { name: 'nexus does not know this browser' }))
  await world.enter(context)
  await shown(page.locator('.shell'))
})

pageTest('a log is downloaded by a link that is good for nothing else', async (world) => {
  const page = await world.open()
  const id = world.nexus('add', 'echo printed; sleep 1000')
  await goTo(page, `#/jobs/${id}`)
  await shown(page.getByRole('log').getByText('printed'))
  const asked = page.waitForEvent('download')
  await page.getByRole('button', { name: 'Download the log' }).click()
  const download = await asked
  assert.equal(download.suggestedFilename(), `${id}.log`)
  assert.equal(readFileSync(await download.path(), 'utf8'), 'printed\n')
  const link = new URL(download.url())
  const status = async (path: string): Promise<number> => (await fetch(new URL(path, link))).status
  assert.equal(await status(link.pathname + link.search), 200)
  assert.equal(await status(`/v1/status?${link.search.slice(link.search.indexOf('link='))}`), 401)
})
