// A service of its own for each test, and a browser that is let in. Nothing is left behind.
//
// NEXUS_BIN            the binary to test (needed)
// NEXUS_TEST_CHROMIUM  the browser (default /usr/bin/chromium)
// NEXUS_TEST_PAGE      a folder with a built page to use instead of the one in the binary
// NEXUS_TEST_NVML      the fake driver library, for tests with GPUs of their own
import { execFileSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { extname, join } from 'node:path'
import test from 'node:test'
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Locator, type Page } from 'playwright-core'

const BIN = process.env.NEXUS_BIN ?? ''
const CHROMIUM = process.env.NEXUS_TEST_CHROMIUM ?? '/usr/bin/chromium'
const PAGE = process.env.NEXUS_TEST_PAGE ?? ''
const NVML = process.env.NEXUS_TEST_NVML ?? ''

export const DEADLINE_MS = 20_000

const ARGUMENTS = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
]

/** A page that the test itself hands out is of no network, and may not speak to this machine without this. */
const OWN_PAGE_ARGUMENTS = ['--disable-features=LocalNetworkAccessChecks,LocalNetworkAccessChecksWebSockets']

const TYPES: Record<string, string> = { '.html': 'text/html', '.js': 'text/javascript', '.css': 'text/css', '.svg': 'image/svg+xml' }
const POLICY = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"

export interface FakeGpu {
  uuid: string
  name: string
  memory_mib: number
  used_mib: number
  load: number
  temperature: number
  power_w: number
  processes: { pid: number; memory_mib: number }[]
}

export class World {
  readonly folder = mkdtempSync(join(tmpdir(), 'nxw-'))
  readonly requests: string[] = []
  readonly errors: string[] = []
  private readonly env: NodeJS.ProcessEnv
  private browser: Browser | null = null
  private entered = false

  constructor(fakeGpus: FakeGpu[] | null) {
    this.env = { ...process.env, NEXUS_HOME: join(this.folder, 'home'), NEXUS_GPU_LOCKS: join(this.folder, 'locks') }
    if (fakeGpus === null) {
      this.nexus('start', '--simulate-gpus', '4')
      return
    }
    copyFileSync(NVML, join(this.folder, 'libnvidia-ml.so.1'))
    mkdirSync(join(this.folder, 'locks'))
    this.env.NEXUS_NVML = join(this.folder, 'libnvidia-ml.so.1')
    this.env.FAKE_NVML = join(this.folder, 'gpus.json')
    this.env.NEXUS_NVIDIA_SMI = join(this.folder, 'none')
    this.setGpus(fakeGpus)
    this.nexus('start')
  }

  setGpus(gpus: FakeGpu[]): void {
    const part = join(this.folder, 'gpus.part')
    writeFileSync(part, JSON.stringify({ driver: '580.65.06', fault: null, gpus }))
    renameSync(part, join(this.folder, 'gpus.json'))
  }

  /** Runs the command line; gives what it printed. */
  nexus(...words: string[]): string {
    return execFileSync(BIN, words, { env: this.env, cwd: this.folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] }).trim()
  }

  /** A file of the home. */
  file(name: string): string {
    return join(this.folder, 'home', name)
  }

  state(id: string): string {
    return (JSON.parse(this.nexus('show', id, '--json')) as { state: string }).state
  }

  waiting(): string[] {
    return (JSON.parse(this.nexus('queue', '--json')) as { id: string }[]).map((job) => job.id)
  }

  async context(options: BrowserContextOptions = {}): Promise<BrowserContext> {
    this.browser ??= await chromium.launch({ executablePath: CHROMIUM, args: PAGE === '' ? ARGUMENTS : [...ARGUMENTS, ...OWN_PAGE_ARGUMENTS] })
    const context = await this.browser.newContext({ viewport: { width: 1280, height: 800 }, ...options })
    context.setDefaultTimeout(DEADLINE_MS)
    context.on('request', (request) => this.requests.push(request.url()))
    context.on('weberror', (error) => this.errors.push(error.error().message))
    if (PAGE !== '') await serveFrom(context, PAGE)
    return context
  }

  /** A page that is let in by a link of its own. */
  async enter(context: BrowserContext): Promise<Page> {
    const page = await context.newPage()
    // Any port that is free, and then that one: another would be another service to a browser.
    const port = this.entered ? [] : ['--port', '0']
    this.entered = true
    await page.goto(this.nexus('web', '--no-open', ...port).match(/http:\S+/)?.[0] ?? '')
    await page.locator('.shell').waitFor()
    return page
  }

  async open(options: BrowserContextOptions = {}): Promise<Page> {
    return this.enter(await this.context(options))
  }

  async end(): Promise<void> {
    await this.browser?.close()
    this.nexus('stop', '-y')
    rmSync(this.folder, { recursive: true, force: true })
  }
}

/** The page comes from a folder, everything else from the service. */
async function serveFrom(context: BrowserContext, folder: string): Promise<void> {
  await context.route((url) => !url.pathname.startsWith('/v1') && !url.pathname.startsWith('/enter'), async (route) => {
    const path = new URL(route.request().url()).pathname
    const file = join(folder, path === '/' ? 'index.html' : path)
    if (!existsSync(file)) return route.fulfill({ status: 404 })
    const headers = { 'content-type': TYPES[extname(file)] ?? 'application/octet-stream', 'content-security-policy': POLICY }
    return route.fulfill({ body: readFileSync(file), headers })
  })
}

interface Options {
  gpus?: FakeGpu[]
  /** What else it needs and is not here, in a word. */
  missing?: string | false
}

/** A test with a service and a browser. Skipped, with a word, where the binary or the driver is not named. */
export function pageTest(name: string, body: (world: World) => Promise<void>, options: Options = {}): void {
  const missing = BIN === '' ? 'NEXUS_BIN is not set' : options.gpus !== undefined && NVML === '' ? 'NEXUS_TEST_NVML is not set' : (options.missing ?? false)
  test(name, { skip: missing, timeout: 120_000 }, async () => {
    const world = new World(options.gpus ?? null)
    try {
      await body(world)
      if (world.errors.length > 0) throw new Error(`the page failed: ${world.errors.join('; ')}`)
    } finally {
      await world.end()
    }
  })
}

/** Waits until it holds, asking again as the browser draws. */
export async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS
  while (!(await holds())) {
    if (performance.now() > deadline) throw new Error(`not within ${DEADLINE_MS / 1000} s: ${what}`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

export const shown = (locator: Locator) => locator.first().waitFor({ state: 'visible' })

export async function goTo(page: Page, hash: string): Promise<void> {
  await page.evaluate((to) => void (window.location.hash = to), hash)
}
