// Values as people type them: durations, sizes, lists. Each reader gives the value, or what would be right.
import type { Extract, SignalBefore } from '../api/jobs'
import { signalNumber } from './ended'

export class Wrong {
  readonly want: string
  constructor(want: string) {
    this.want = want
  }
}

// crates/api/src/values.rs is the service's reader, and crates/api/cases/values.json what all of them are tested with.
const UNITS: Record<string, bigint> = { s: 1n, m: 60n, h: 3600n, d: 86400n }
const LONGEST_SECONDS = 36_500n * 86_400n
const MILLION = 1_000_000n
const USUAL = '90s, 30m, 4h or 1h30m'

/** `90s`, `1.5h`, `1h30m`, `2:30:00`, `1-12:00:00`, in seconds. */
export function duration(text: string): number | Wrong {
  const two = /^(\d+):([0-5]\d)$/.exec(text)
  if (two) return new Wrong(`${BigInt(two[1]!)}h${Number(two[2])}m or ${BigInt(two[1]!)}m${Number(two[2])}s`)
  if (/^\d+$/.test(text)) return new Wrong(`${text}s, ${text}m, ${text}h or ${text}d`)
  const seconds = ofClock(text) ?? withUnits(text)
  if (seconds === null) return new Wrong(USUAL)
  return seconds <= LONGEST_SECONDS ? Number(seconds) : new Wrong('36500d at most')
}

function ofClock(text: string): bigint | null {
  const match = /^(?:(\d+)-(?=(?:[01]\d|2[0-3]):))?(\d+):([0-5]\d):([0-5]\d)$/.exec(text)
  if (!match) return null
  const [days, hours, minutes, seconds] = match.slice(1).map((part) => BigInt(part ?? '0')) as [bigint, bigint, bigint, bigint]
  return ((days * 24n + hours) * 60n + minutes) * 60n + seconds
}

function withUnits(text: string): bigint | null {
  if (!/^(?:\d+(?:\.\d{1,6})?[smhd])+$/.test(text)) return null
  let total = 0n
  for (const [, number = '', unit = ''] of text.matchAll(/([\d.]+)([smhd])/g)) {
    const millionths = decimal(number) * (UNITS[unit] ?? 0n)
    if (millionths % MILLION !== 0n) return null
    total += millionths / MILLION
  }
  return total
}

/** `1.5`, in millionths. */
function decimal(number: string): bigint {
  const [whole = '', part = ''] = number.split('.', 2)
  return BigInt(whole) * MILLION + BigInt(part.padEnd(6, '0'))
}

/** A duration that is not nothing. */
export function timeLimit(text: string): number | Wrong {
  const seconds = duration(text)
  return seconds === 0 ? new Wrong('more than nothing') : seconds
}

const SIZES: Record<string, bigint> = { '': 1n, K: 1n << 10n, M: 1n << 20n, G: 1n << 30n, T: 1n << 40n }

/** `512M`, `8G`, `1.5 GiB`, in MiB, rounded up. */
export function mebibytes(text: string): number | Wrong {
  const match = /^(\d+(?:\.\d{1,6})?)\s*(?:([KMGT])(?:i?B)?|B)$/i.exec(text)
  const bytes = match ? (decimal(match[1] ?? '') * (SIZES[match[2]?.toUpperCase() ?? ''] ?? 1n)) / MILLION : 1n << 60n
  if (bytes >= 1n << 60n) return new Wrong('a number and its unit, as in 512M or 8G')
  return Number((bytes + (1n << 20n) - 1n) >> 20n)
}

/** A size that is not nothing. */
export function memory(text: string): number | Wrong {
  const mib = mebibytes(text)
  return mib === 0 ? new Wrong('more than nothing') : mib
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
