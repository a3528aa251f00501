// Times, sizes and lists as people read them.
import assert from 'node:assert/strict'
import test from 'node:test'
import { cause, meaning, signalNumber } from '../../src/text/ended'
import { compareValues } from '../../src/text/numbers'
import { clock, limit, rough, secondsSince, span } from '../../src/text/time'
import { counted, firstLine, gpuWords, indexList, memory, printable, quoted } from '../../src/text/words'
import type { Job } from '../../src/api/jobs'

test('spans have two units', () => {
  for (const [seconds, text] of [[0, '0s'], [45.9, '45s'], [130, '2m 10s'], [3600, '1h 0m'], [8100, '2h 15m'], [273600, '3d 4h'], [-5, '0s']] as const) {
    assert.equal(span(seconds), text)
  }
})

test('limits read as typed', () => {
  for (const [seconds, text] of [[0, '0s'], [14400, '4h'], [5400, '1h30m'], [90, '1m30s'], [172800, '2d']] as const) assert.equal(limit(seconds), text)
})

test('rough times have one unit', () => {
  for (const [seconds, text] of [[5, '5s'], [185, '3m'], [7300, '2h'], [200000, '2d']] as const) assert.equal(rough(seconds), text)
})

test('the date stands only on other days, and no time is negative', () => {
  const now = new Date(2024, 9, 24, 17, 45)
  assert.equal(clock(new Date(2024, 9, 24, 15, 30).toISOString(), now), '15:30')
  assert.equal(clock(new Date(2024, 9, 23, 9, 5).toISOString(), now), '2024-10-23 09:05')
  assert.equal(clock('soon', now), 'soon')
  assert.equal(secondsSince(new Date(2024, 9, 24, 18).toISOString(), now), 0)
})

test('indices are drawn together', () => {
  for (const [indices, text] of [[[0], '0'], [[1, 0], '0,1'], [[0, 1, 2, 3, 5], '0-3,5'], [[], ''], [[7, 2, 7], '2,7']] as const) assert.equal(indexList(indices), text)
  assert.equal(gpuWords([2]), 'GPU 2')
  assert.equal(gpuWords([0, 1, 2]), 'GPUs 0-2')
})

test('sizes and counts', () => {
  assert.deepEqual([512, 1024, 3600, 24576].map(memory), ['512M', '1G', '3.5G', '24G'])
  assert.deepEqual([0, 1, 12480].map((count) => counted(count, 'job')), ['0 jobs', '1 job', '12,480 jobs'])
})

test('text of others cannot play tricks', () => {
  assert.equal(printable('a\x1b[31mb\u202ec'), 'a\\x1b[31mb\\u202ec')
  assert.equal(printable('two\nlines'), 'two\nlines')
  assert.equal(firstLine('one\ntwo'), 'one …')
  assert.equal(quoted("it's"), "'it'\\''s'")
})

test('ends are explained', () => {
  assert.equal(cause('exit', 3, null), 'exit 3')
  assert.equal(cause('signal', null, 9), 'signal 9 (KILL)')
  assert.equal(cause('gpu-oom', 1, null), 'gpu-oom')
  const job = { state: 'failed', reason: 'exit', exit_code: 137, detail: null, request: {}, cwd: '/work' } as unknown as Job
  assert.match(meaning(job, true)[0] ?? '', /^137 = 128 \+ 9: a program in it was ended by signal 9 \(KILL\)/)
  assert.deepEqual([signalNumber('USR1'), signalNumber('SIGTERM'), signalNumber('9'), signalNumber('NO')], [10, 15, 9, null])
})

test('numbers are sorted as numbers, nothing last', () => {
  assert.deepEqual(['10', '9', '', 'b', 'a', '1e-3'].sort(compareValues), ['1e-3', '9', '10', 'a', 'b', ''])
})
