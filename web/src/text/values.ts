// Values as people type them: durations, sizes, lists. Each reader gives the value, or what would be right.
import type { Extract, SignalBefore } from '../api/jobs'
import { signalNumber } from './ended'

export class Wrong {
  readonly want: string
  constructor(want: string) {
    this.want = want
  }
}

const UNITS: Record<string, number> = { s: 1, m: 60, h: 3600, d: 86400 }

/** `90s`, `4h`, `1h30m`, in seconds. */
export function duration(text: string): number | Wrong {
  const parts = [...text.matchAll(/(\d+)([smhd])/g)]
  if (parts.length === 0 || parts.map((part) => part[0]).join('') !== text) {
    return new Wrong('a number and its unit, as in 90s, 4h or 1h30m')
  }
  const seconds = parts.reduce((sum, part) => sum + Number(part[1]) * (UNITS[part[2] ?? 's'] ?? 1), 0)
  return seconds > 0 ? seconds : new Wrong('more than nothing')
}

const SIZES: Record<string, number> = { K: 1 / 1024, M: 1, G: 1024, T: 1024 * 1024 }

/** `512M`, `8G`, `1.5 GiB`, in MiB. */
export function mebibytes(text: string): number | Wrong {
  const match = /^(\d+(?:\.\d+)?)\s*([KMGT])(?:i?B)?$/i.exec(text)
  const unit = SIZES[match?.[2]?.toUpperCase() ?? '']
  if (!match || unit === undefined) return new Wrong('a number and its unit, as in 512M or 8G')
  const mib = Math.ceil(Number(match[1]) * unit)
  return mib > 0 ? mib : new Wrong('more than nothing')
}

/** `0-3,5` */
export function gpuList(text: string): number[] | Wrong {
  const list: number[] = []
  for (const part of text.split(',')) {
    const match = /^(\d{1,3})(?:-(\d{1,3}))?$/.exec(part.trim())
    const first = Number(match?.[1])
    const last = match?.[2] === undefined ? first : Number(match[2])
    if (!match || last < first) return new Wrong('a list of GPUs, as in 0-3,5')
    for (let index = first; index <= last; index++) if (!list.includes(index)) list.push(index)
  }
  return list
}

/** `2`, `0.5`, `0` */
export function gpuAmount(text: string): number | Wrong {
  if (/^\d+,\d/.test(text)) return new Wrong('a number; which GPUs it may have goes under “Only on GPUs”')
  if (!/^(\d+(\.\d+)?|\.\d+)$/.test(text)) return new Wrong('a number of GPUs, or a part of one, as in 2 or 0.5')
  const amount = Number(text)
  if (amount > 1 && !Number.isInteger(amount)) return new Wrong(`whole GPUs from one on: ${Math.ceil(amount)}`)
  return amount
}

export function whole(text: string, least = 0): number | Wrong {
  const number = Number(text)
  if (!/^-?\d+$/.test(text) || number < least) return new Wrong(`a whole number${least > 0 ? ` from ${least}` : ''}`)
  return number
}

/** `USR1@120s` */
export function signalBefore(text: string): SignalBefore | Wrong {
  const [name = '', before = ''] = text.split('@', 2)
  const signal = signalNumber(name)
  const seconds = duration(before)
  if (signal === null || seconds instanceof Wrong) return new Wrong('a signal and how long before the end, as in USR1@120s')
  return { signal, before_seconds: seconds }
}

/** Words between commas or blanks. */
export function words(text: string): string[] {
  return text.split(/[\s,]+/).filter((word) => word !== '')
}

/** Lines `NAME=value`; blank ones and # comments do not count. */
export function environment(text: string): Record<string, string> | Wrong {
  const env: Record<string, string> = {}
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() === '' || line.trim().startsWith('#')) continue
    const split = line.indexOf('=')
    const name = line.slice(0, split).trim()
    if (split < 1 || /\s/.test(name)) return new Wrong(`NAME=value in line ${index + 1}`)
    env[name] = line.slice(split + 1)
  }
  return env
}

/** Lines `loss=final loss: ([0-9.]+)` */
export function extracts(text: string): Extract[] | Wrong {
  const list: Extract[] = []
  for (const line of text.split('\n')) {
    if (line.trim() === '') continue
    const split = line.indexOf('=')
    const name = line.slice(0, split).trim()
    const pattern = line.slice(split + 1)
    if (!/^[A-Za-z_][\w.-]*$/.test(name) || pattern === '') return new Wrong('a name and a pattern, as in loss=final loss: ([0-9.]+)')
    list.push({ name, pattern })
  }
  return list
}
