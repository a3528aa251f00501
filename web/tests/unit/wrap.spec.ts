// Long lines are cut, and nothing of them is lost.
import assert from 'node:assert/strict'
import test from 'node:test'
import { PLAIN, plainText, type Line } from '../../src/text/ansi'
import { Wrapper } from '../../src/text/wrap'

const line = (...texts: string[]): Line => texts.map((text, index) => ({ text, style: { ...PLAIN, fg: index } }))

test('a line is cut where the width ends, colours and all', () => {
  const rows = new Wrapper(4).rows([line('abcdef', 'gh'), line(), line('x')])
  assert.deepEqual(rows.map((row) => [plainText(row.pieces), row.line, row.first]), [['abcd', 0, true], ['efgh', 0, false], ['', 1, true], ['x', 2, true]])
  assert.deepEqual(rows[1]?.pieces.map((piece) => piece.style.fg), [0, 1])
})

test('without a width nothing is cut', () => {
  assert.equal(new Wrapper(0).rows([line('x'.repeat(1000))]).length, 1)
})

test('no letter is cut in two', () => {
  const rows = new Wrapper(3).rows([line('ab😀cd')])
  assert.deepEqual(rows.map((row) => plainText(row.pieces)), ['ab', '😀c', 'd'])
})
