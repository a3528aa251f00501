// Output of jobs becomes coloured lines; whatever else is in it does nothing.
import assert from 'node:assert/strict'
import test from 'node:test'
import { AnsiReader, paletteColour, plainText, type Line } from '../../src/text/ansi'

function read(...parts: string[]): Line[] {
  const reader = new AnsiReader()
  const encoder = new TextEncoder()
  const lines = parts.flatMap((part) => reader.push(encoder.encode(part)))
  const open = reader.open()
  return open === null ? lines : [...lines, open]
}

const texts = (...parts: string[]) => read(...parts).map(plainText)

test('the last version of a line stays', () => {
  assert.deepEqual(texts('10%\r50%\r100%\ndone\n'), ['100%', 'done'])
  assert.deepEqual(texts('a\r\nb\r', '\nc'), ['a', 'b', 'c'])
  assert.deepEqual(texts('10%\r', '20%\r'), ['20%'])
  assert.deepEqual(texts('10%\r\x1b[K20%\n'), ['20%'])
  assert.deepEqual(texts('a long line\rshort\n'), ['short'])
  assert.deepEqual(texts('\n\nx\n'), ['', '', 'x'])
})

test('colours are kept over returns and lines', () => {
  const [line] = read('\x1b[1;31mred\x1b[0m plain\n')
  assert.deepEqual(line?.map((piece) => [piece.text, piece.style.fg, piece.style.bold]), [['red', 1, true], [' plain', null, false]])
  const [over] = read('\x1b[32m10%\r20%\n')
  assert.deepEqual(over?.map((piece) => [piece.text, piece.style.fg]), [['20%', 2]])
  assert.equal(read('\x1b[95mx\n')[0]?.[0]?.style.fg, 13)
  assert.equal(read('\x1b[38;5;208mx\n')[0]?.[0]?.style.fg, 208)
  assert.equal(read('\x1b[38;2;255;128;0mx\n')[0]?.[0]?.style.fg, '#ff8000')
  assert.equal(read('\x1b[48:5:17mx\n')[0]?.[0]?.style.bg, 17)
  assert.equal(read('\x1b[31;39mx\n')[0]?.[0]?.style.fg, null)
})

test('other sequences do nothing', () => {
  const cases: [string, string][] = [
    ['\x1b]0;title\x07shown', 'shown'],
    ['\x1b]8;;javascript:alert(1)\x1b\\link\x1b]8;;\x1b\\', 'link'],
    ['\x1b]52;c;aGk=\x07shown', 'shown'],
    ['\x1bP1$qm\x1b\\shown', 'shown'],
    ['\x1b[2J\x1b[H\x1b[10;10Hshown', 'shown'],
    ['\x1b[?25lshown\x1b[?25h', 'shown'],
    ['\x1b(Bshown', 'shown'],
    ['\x07\x00shown', 'shown'],
    ['<b>not markup</b>', '<b>not markup</b>'],
    ['a\tb', 'a    b'],
    ['ab\bc', 'ac'],
  ]
  for (const [bytes, text] of cases) assert.deepEqual(texts(bytes), [text], JSON.stringify(bytes))
})

test('half a sequence swallows no line', () => {
  assert.deepEqual(texts('\x1b]0;never ended\nnext\n').at(-1), 'next')
  assert.deepEqual(texts('\x1b[31', 'mred\n'), ['red'])
})

test('bytes may be cut anywhere', () => {
  const bytes = new TextEncoder().encode('\x1b[33mé→█\x1b[0m\r\nß\n')
  for (let at = 1; at < bytes.length; at++) {
    const reader = new AnsiReader()
    const lines = [...reader.push(bytes.slice(0, at)), ...reader.push(bytes.slice(at))]
    assert.deepEqual(lines.map(plainText), ['é→█', 'ß'], `cut at ${at}`)
  }
})

test('no line is longer than the page can show', () => {
  const lines = texts('x'.repeat(20_000))
  assert.ok(lines.length > 2 && lines.every((line) => line.length <= 8000))
  assert.equal(lines.join('').length, 20_000)
})

test('places above sixteen are colours', () => {
  assert.equal(paletteColour(16), 'rgb(0 0 0)')
  assert.equal(paletteColour(196), 'rgb(255 0 0)')
  assert.equal(paletteColour(255), 'rgb(238 238 238)')
})
