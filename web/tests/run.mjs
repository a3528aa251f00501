// Builds the tests of the folders named and runs them with node's own runner. Usage: node tests/run.mjs unit page
import { spawnSync } from 'node:child_process'
import { readdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { build } from 'vite'

const root = fileURLToPath(new URL('..', import.meta.url))
const [folders, names] = [process.argv.slice(2).filter((word) => !word.includes('.')), process.argv.slice(2).filter((word) => word.includes('.'))]
const files = folders.flatMap((folder) => {
  const all = readdirSync(`${root}/tests/${folder}`).filter((name) => name.endsWith('.spec.ts'))
  return all.filter((name) => names.length === 0 || names.includes(name)).map((name) => `${folder}/${name}`)
})

rmSync(`${root}/.tests`, { recursive: true, force: true })
await build({
  root,
  configFile: false,
  logLevel: 'warn',
  build: {
    ssr: true,
    outDir: '.tests',
    target: 'node20',
    rollupOptions: {
      input: Object.fromEntries(files.map((file) => [file.replace(/\.ts$/, ''), `${root}/tests/${file}`])),
      output: { entryFileNames: '[name].mjs' },
      external: ['playwright-core'],
    },
  },
})

// One after the other: each starts a service and a browser of its own.
const built = files.map((file) => `.tests/${file.replace(/\.ts$/, '.mjs')}`)
const run = spawnSync(process.execPath, ['--test', '--test-concurrency=1', ...built], { cwd: root, stdio: 'inherit' })
process.exit(run.status ?? 1)
