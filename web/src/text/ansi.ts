// Output of jobs as lines of coloured text. Sequences colour or do nothing; nothing of them reaches the page.
//
// A line written over with \r shows its last version, as `nexus logs` does. Bytes may come in any cuts.

export interface Style {
  /** A palette place 0-255, a `#rrggbb`, or none. */
  fg: number | string | null
  bg: number | string | null
  bold: boolean
  dim: boolean
  italic: boolean
  underline: boolean
  strike: boolean
  inverse: boolean
}

export interface Piece {
  text: string
  style: Style
}

export type Line = Piece[]

export const PLAIN: Style = {
  fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, strike: false, inverse: false,
}

/** Longer lines are broken there: no line can freeze the page. */
const LONGEST_LINE = 8000
/** A sequence that does not end by then is none. */
const LONGEST_SEQUENCE = 4096

type Mode = 'text' | 'escape' | 'csi' | 'string' | 'string-escape' | 'charset'

export class AnsiReader {
  private readonly decoder = new TextDecoder('utf-8')
  private mode: Mode = 'text'
  private parameters = ''
  private length = 0
  private style: Style = PLAIN
  private line: Line = []
  private lineLength = 0
  private text = ''
  private returned = false

  /** Takes bytes as they come; gives the lines they finish. */
  push(bytes: Uint8Array): Line[] {
    const finished: Line[] = []
    this.read(this.decoder.decode(bytes, { stream: true }), finished)
    return finished
  }

  /** The line that is not finished yet; null while it is empty. */
  open(): Line | null {
    const line = this.text === '' ? this.line : [...this.line, { text: this.text, style: this.style }]
    return line.length === 0 ? null : line
  }

  private read(text: string, finished: Line[]): void {
    let start = 0
    for (let at = 0; at < text.length; at++) {
      const code = text.charCodeAt(at)
      // A newline ends whatever was begun: half a sequence must not swallow the log.
      if (code === 0x0a && this.mode !== 'text') this.mode = 'text'
      if (this.mode === 'text') {
        if (code >= 0x20 && code !== 0x7f && !(code >= 0x80 && code < 0xa0) && !this.returned) continue
        this.take(text.slice(start, at), finished)
        start = this.control(code, finished) ? at + 1 : at
      } else {
        this.sequence(text.charAt(at), code)
        start = at + 1
      }
    }
    if (this.mode === 'text') this.take(text.slice(start), finished)
  }

  /** A letter that is more than text. False: after a return, it begins the line anew. */
  private control(code: number, finished: Line[]): boolean {
    if (code === 0x0a) {
      this.end(finished)
      return true
    }
    if (code === 0x0d) {
      this.returned = true
      return true
    }
    if (code === 0x1b || code === 0x9b || code === 0x9d || code === 0x90) {
      this.mode = code === 0x1b ? 'escape' : code === 0x9b ? 'csi' : 'string'
      this.parameters = ''
      this.length = 0
      return true
    }
    if (this.returned) {
      this.returned = false
      this.line = []
      this.text = ''
      this.lineLength = 0
      return code < 0x20 && code !== 0x09
    }
    if (code === 0x09) this.text += '    '
    if (code === 0x08) this.text = this.text.slice(0, -1)
    return true
  }

  private take(text: string, finished: Line[]): void {
    let rest = text
    while (this.lineLength + rest.length > LONGEST_LINE) {
      const room = LONGEST_LINE - this.lineLength
      this.text += rest.slice(0, room)
      rest = rest.slice(room)
      this.end(finished)
    }
    this.text += rest
    this.lineLength += rest.length
  }

  private cut(): void {
    if (this.text !== '') this.line.push({ text: this.text, style: this.style })
    this.text = ''
  }

  private end(finished: Line[]): void {
    this.cut()
    finished.push(this.line)
    this.line = []
    this.lineLength = 0
    this.returned = false
  }

  private sequence(letter: string, code: number): void {
    if (++this.length > LONGEST_SEQUENCE) {
      this.mode = 'text'
      return
    }
    switch (this.mode) {
      case 'escape':
        if (letter === '[') this.mode = 'csi'
        else if (letter === ']' || letter === 'P' || letter === '^' || letter === '_' || letter === 'X') this.mode = 'string'
        else if (letter === '(' || letter === ')' || letter === '#' || letter === '%' || letter === ' ') this.mode = 'charset'
        else this.mode = 'text'
        return
      case 'charset':
        this.mode = 'text'
        return
      case 'csi':
        if (code >= 0x20 && code < 0x40) this.parameters += letter
        else {
          if (letter === 'm') this.colour(this.parameters)
          this.mode = 'text'
        }
        return
      case 'string':
        if (code === 0x07 || code === 0x9c) this.mode = 'text'
        else if (code === 0x1b) this.mode = 'string-escape'
        return
      case 'string-escape':
        this.mode = letter === '\\' ? 'text' : 'string'
        return
      case 'text':
        return
    }
  }

  private colour(parameters: string): void {
    if (!/^[\d;:]*$/.test(parameters)) return
    this.cut()
    const numbers = parameters.split(/[;:]/).map((text) => (text === '' ? 0 : Number(text)))
    this.style = styled(this.style, numbers)
  }
}

function styled(before: Style, numbers: number[]): Style {
  let style = { ...before }
  for (let at = 0; at < numbers.length; at++) {
    const number = numbers[at] ?? 0
    if (number === 0) style = { ...PLAIN }
    else if (number === 1) style.bold = true
    else if (number === 2) style.dim = true
    else if (number === 3) style.italic = true
    else if (number === 4) style.underline = true
    else if (number === 7) style.inverse = true
    else if (number === 9) style.strike = true
    else if (number === 22) style.bold = style.dim = false
    else if (number === 23) style.italic = false
    else if (number === 24) style.underline = false
    else if (number === 27) style.inverse = false
    else if (number === 29) style.strike = false
    else if (number >= 30 && number <= 37) style.fg = number - 30
    else if (number === 39) style.fg = null
    else if (number >= 40 && number <= 47) style.bg = number - 40
    else if (number === 49) style.bg = null
    else if (number >= 90 && number <= 97) style.fg = number - 90 + 8
    else if (number >= 100 && number <= 107) style.bg = number - 100 + 8
    else if (number === 38 || number === 48) {
      const [colour, used] = extended(numbers.slice(at + 1))
      if (colour !== null) style[number === 38 ? 'fg' : 'bg'] = colour
      at += used
    }
  }
  return style
}

/** `5;N` or `2;R;G;B`, and how many numbers that took. */
function extended(numbers: number[]): [number | string | null, number] {
  const byte = (number: number | undefined) => Math.min(255, Math.max(0, number ?? 0))
  if (numbers[0] === 5) return [byte(numbers[1]), 2]
  if (numbers[0] !== 2) return [null, 1]
  const hex = numbers.slice(1, 4).map((number) => byte(number).toString(16).padStart(2, '0')).join('')
  return [`#${hex.padEnd(6, '0')}`, 4]
}

/** Colours above the sixteen of the theme: a cube of 6×6×6, then greys. */
export function paletteColour(place: number): string {
  if (place >= 232) {
    const grey = 8 + (place - 232) * 10
    return `rgb(${grey} ${grey} ${grey})`
  }
  const level = (part: number) => (part === 0 ? 0 : 55 + part * 40)
  const cube = place - 16
  return `rgb(${level(Math.floor(cube / 36))} ${level(Math.floor(cube / 6) % 6)} ${level(cube % 6)})`
}

export function plainText(line: Line): string {
  return line.map((piece) => piece.text).join('')
}
