// What is typed into the form becomes what the service understands, or says what would be right.
import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import test from 'node:test'
import { EMPTY, fieldOf, meant } from '../../src/state/draft'
import { duration, environment, extracts, gpuAmount, gpuList, mebibytes, memory, signalBefore, timeLimit, Wrong } from '../../src/text/values'

const wrong = (value: unknown) => value instanceof Wrong

interface Cases {
  durations: { read: Record<string, number>; refused: Record<string, string> }
  mebibytes: { read: Record<string, number>; refused: string[] }
}

test('durations and sizes are read and refused as everywhere', () => {
  const file = new URL('../../../crates/api/cases/values.json', import.meta.url)
  const { durations, mebibytes: sizes } = JSON.parse(readFileSync(file, 'utf8')) as Cases
  for (const [text, seconds] of Object.entries(durations.read)) assert.equal(duration(text), seconds, text)
  for (const [text, instead] of Object.entries(durations.refused)) assert.deepEqual(duration(text), new Wrong(instead), text)
  for (const [text, mib] of Object.entries(sizes.read)) assert.equal(mebibytes(text), mib, text)
  for (const text of sizes.refused) assert.ok(wrong(mebibytes(text)), text)
})

test('durations, sizes, amounts, lists', () => {
  assert.ok(wrong(timeLimit('0s')) && wrong(memory('0G')))
  assert.deepEqual(['2', '0.5', '0', '.25'].map(gpuAmount), [2, 0.5, 0, 0.25])
  assert.ok(['1.5', '0,1', 'all', '-1'].every((text) => wrong(gpuAmount(text))))
  assert.deepEqual(gpuList('0-3,5'), [0, 1, 2, 3, 5])
  assert.ok(['', '3-1', 'a', '1-'].every((text) => wrong(gpuList(text))))
  assert.deepEqual(signalBefore('USR1@120s'), { signal: 10, before_seconds: 120 })
  assert.ok(wrong(signalBefore('USR1')))
})

test('lines of variables and of values to take', () => {
  assert.deepEqual(environment('A=1\n\n# no\nB=x=y'), { A: '1', B: 'x=y' })
  assert.ok(wrong(environment('A')))
  assert.deepEqual(extracts('loss=final loss: ([0-9.]+)'), [{ name: 'loss', pattern: 'final loss: ([0-9.]+)' }])
  assert.ok(wrong(extracts('1x=a')))
})

test('a form says only what was typed', () => {
  const { spec, copies, errors } = meant({ ...EMPTY, command: 'true', gpus: '0.5', time: '4h', tags: 'a, b', env: 'A=1', copies: '3' }, '/home/ada')
  assert.deepEqual(errors, {})
  assert.equal(copies, 3)
  assert.deepEqual(spec, {
    command: { shell: 'true' }, cwd: '/home/ada', tags: ['a', 'b'], request: { gpus: 0.5, time_seconds: 14400 }, env: { A: '1' }, env_given: ['A'],
  })
})

test('a machine is meant whatever its class', () => {
  const request = (typed: { class?: string; machine?: string }) => meant({ ...EMPTY, command: 'true', ...typed }, '/').spec.request
  assert.deepEqual(request({ class: 'big' }), { class: 'big' })
  assert.deepEqual(request({ class: 'big', machine: 'box' }), { machine: 'box' })
})

test('what is wrong is said at its field', () => {
  const { errors } = meant({ ...EMPTY, command: 'true', gpus: '1.5', time: 'long' }, '/')
  assert.deepEqual(Object.keys(errors).sort(), ['gpus', 'time'])
  assert.equal(fieldOf('gpu-model'), 'model')
  assert.equal(fieldOf('plan'), null)
})
