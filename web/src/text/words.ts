// Small pieces of sentences: counts, sizes, lists of GPUs, and text of others made safe to read.

/** `1 job`, `3 jobs` */
export function counted(count: number, thing: string): string {
  return count === 1 ? `1 ${thing}` : `${grouped(count)} ${thing}s`
}

/** `12,480` */
export function grouped(count: number): string {
  return count.toLocaleString('en-US')
}

/** `3.5G`, whole MiB below that. */
export function memory(mib: number): string {
  if (mib < 1024) return `${mib}M`
  return mib % 1024 < 52 ? `${Math.floor(mib / 1024)}G` : `${(mib / 1024).toFixed(1)}G`
}

/** `8G`, `1536M`, as it would be typed. */
export function memoryTyped(mib: number): string {
  return mib > 0 && mib % 1024 === 0 ? `${mib / 1024}G` : `${mib}M`
}

/** `65.3 GB`, of a disk. */
export function bytes(count: number): string {
  const units = ['B', 'KB', 'MB', 'GB', 'TB', 'PB']
  let size = count
  let unit = 0
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024
    unit++
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`
}

/** `0-3,5` */
export function indexList(indices: readonly number[]): string {
  const sorted = [...new Set(indices)].sort((a, b) => a - b)
  const ranges: [number, number][] = []
  for (const index of sorted) {
    const last = ranges.at(-1)
    if (last && last[1] + 1 === index) last[1] = index
    else ranges.push([index, index])
  }
  const text = ([first, last]: [number, number]) => {
    if (first === last) return String(first)
    return last - first === 1 ? `${first},${last}` : `${first}-${last}`
  }
  return ranges.map(text).join(',')
}

/** `GPU 0`, `GPUs 0-3` */
export function gpuWords(indices: readonly number[]): string {
  return indices.length === 1 ? `GPU ${indices[0]}` : `GPUs ${indexList(indices)}`
}

/** Control characters become visible, newlines stay; nothing turns the direction of what follows. */
export function printable(text: string): string {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (letter) => {
    const code = letter.charCodeAt(0)
    return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u${code.toString(16)}`
  })
}

/** The first line, marked if there are more. */
export function firstLine(text: string): string {
  const shown = printable(text.replace(/\n+$/, ''))
  const end = shown.indexOf('\n')
  return end < 0 ? shown : `${shown.slice(0, end)} …`
}

/** The name of a GPU without its maker and family. */
export function gpuModel(name: string): string {
  const kept = name.split(/\s+/).filter((word) => word !== 'NVIDIA' && word !== 'GeForce')
  return printable(kept.join(' '))
}

/** Said as a sentence of its own: `Needs 1 GPU`. */
export function capital(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1)
}

/** `word` as a shell reads it back. */
export function quoted(word: string): string {
  return /^[\p{L}\p{N}_\-+=/.,:@%^]+$/u.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`
}
