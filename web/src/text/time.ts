// Times as people read them. The clock is an argument; the zone is the browser's.

/** `45s`, `2m 10s`, `2h 15m`, `3d 4h` */
export function span(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds))
  const days = Math.floor(whole / 86400)
  const hours = Math.floor(whole / 3600) % 24
  const minutes = Math.floor(whole / 60) % 60
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${minutes}m ${whole % 60}s`
  if (whole < 86400) return `${hours}h ${minutes}m`
  return `${days}d ${hours}h`
}

/** As it would be typed: `4h`, `1h30m`, `90s` as `1m30s`. */
export function limit(seconds: number): string {
  let left = seconds
  let text = ''
  for (const [size, unit] of [[86400, 'd'], [3600, 'h'], [60, 'm'], [1, 's']] as const) {
    if (left >= size) {
      text += `${Math.floor(left / size)}${unit}`
      left %= size
    }
  }
  return text === '' ? '0s' : text
}

/** `3m`: the largest unit alone. */
export function rough(seconds: number): string {
  const whole = Math.max(0, Math.floor(seconds))
  if (whole < 60) return `${whole}s`
  if (whole < 3600) return `${Math.floor(whole / 60)}m`
  if (whole < 86400) return `${Math.floor(whole / 3600)}h`
  return `${Math.floor(whole / 86400)}d`
}

/** Whole seconds since then; never negative, and 0 where the text is no time. */
export function secondsSince(time: string, now: Date): number {
  const then = Date.parse(time)
  return Number.isNaN(then) ? 0 : Math.max(0, Math.floor((now.getTime() - then) / 1000))
}

export function ago(time: string, now: Date): string {
  const seconds = secondsSince(time, now)
  return seconds < 5 ? 'just now' : `${rough(seconds)} ago`
}

const two = (number: number) => String(number).padStart(2, '0')

/** Clock time, with the date only if it is another day. */
export function clock(time: string, now: Date): string {
  const then = new Date(time)
  if (Number.isNaN(then.getTime())) return time
  const hours = `${two(then.getHours())}:${two(then.getMinutes())}`
  return then.toDateString() === now.toDateString() ? hours : `${date(then)} ${hours}`
}

function date(then: Date): string {
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())}`
}

/** With the date and seconds, for titles and facts. */
export function exact(time: string): string {
  const then = new Date(time)
  if (Number.isNaN(then.getTime())) return time
  return `${date(then)} ${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}`
}

/** How long a job has run, ticking while it does. */
export function runtime(job: { started_at: string | null; ended_at: string | null; runtime_seconds: number | null; state: string }, now: Date): string {
  if (job.state === 'running' && job.started_at !== null) return span(secondsSince(job.started_at, now))
  return job.runtime_seconds === null || job.started_at === null ? '' : span(job.runtime_seconds)
}
