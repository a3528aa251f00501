#!/usr/bin/env node
// How soon the page shows something, and how evenly it scrolls, in a real browser, with 10,000 jobs that wait and 100,000
// that have ended. Needs `npm --prefix web ci`, Chromium, and a release binary that has the page. See bench/README.md.
import { execFileSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const here = dirname(fileURLToPath(import.meta.url))
const { chromium } = createRequire(join(here, '../web/package.json'))('playwright-core')
const nexusBinary = process.env.NEXUS_BIN ?? join(here, '../target/release/nexus')
const [waiting, ended] = process.argv.includes('--quick') ? [500, 1000] : [10_000, 100_000]
const chromiumArguments = [
  '--no-sandbox', '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
  '--disable-component-update', '--disable-sync',
]

const folder = mkdtempSync(join(tmpdir(), 'nxb-page-'))
const env = { ...process.env, NEXUS_HOME: join(folder, 'home') }
const nexus = (...words) => execFileSync(nexusBinary, words, { env, cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()

/** Milliseconds from the begin of the visit to the first row that can be read. */
async function firstRow(page, origin, hash) {
  await page.goto('about:blank')
  const begin = performance.now()
  await page.goto(`${origin}/${hash}`, { waitUntil: 'commit' })
  await page.locator('.rows-scroll [role=row]').first().waitFor({ state: 'visible' })
  return performance.now() - begin
}

/** The time between two frames, in ms, while the wheel turns for two seconds. */
async function scroll(page) {
  await page.mouse.move(700, 500)
  await page.evaluate(() => {
    window.frameTimes = []
    let last = performance.now()
    const step = (now) => {
      window.frameTimes.push(now - last)
      last = now
      window.drawing = requestAnimationFrame(step)
    }
    window.drawing = requestAnimationFrame(step)
  })
  const until = performance.now() + 2000
  while (performance.now() < until) {
    await page.mouse.wheel(0, 400)
    await new Promise((resolve) => setTimeout(resolve, 16))
  }
  return page.evaluate(() => {
    cancelAnimationFrame(window.drawing)
    return window.frameTimes.slice(1)
  })
}

try {
  nexus('start', '--simulate-gpus', '4')
  nexus('pause')
  const file = join(folder, 'ended.jsonl')
  execFileSync('python3', [join(here, 'exported.py'), String(ended), file])
  nexus('import', '-q', '--as-history', file)
  nexus('add', '-q', '-x', String(waiting), 'python train.py --model resnet50 --data /data/imagenet --lr 0.1')
  const browser = await chromium.launch({ executablePath: process.env.NEXUS_TEST_CHROMIUM ?? '/usr/bin/chromium', args: chromiumArguments })
  const page = await browser.newPage({ viewport: { width: 1440, height: 900 } })
  const link = nexus('web', '--no-open', '--port', '0')
  await page.goto(link)
  await page.locator('.shell').waitFor()
  const origin = new URL(link).origin
  console.log(`${waiting} wait, ${ended} have ended`)
  for (const hash of ['#/queue', '#/history']) {
    const times = []
    for (let turn = 0; turn < 5; turn++) times.push(await firstRow(page, origin, hash))
    const frames = await scroll(page)
    const long = frames.filter((frame) => frame > 50)
    const ms = (number) => number.toFixed(0)
    console.log(`${hash}: first row after ${times.map(ms).join(', ')} ms; ${frames.length} frames in a scroll of 2 s, longest ${ms(Math.max(...frames))} ms, ${long.length} over 50 ms`)
  }
  await browser.close()
} finally {
  nexus('stop', '-y')
  rmSync(folder, { recursive: true, force: true })
}
