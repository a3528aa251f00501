// Text that may be a number: for sorting and for the axes of charts.

/** `0.1`, `1e-4`, `-3`; null where it is none. */
export function asNumber(text: string | null | undefined): number | null {
  if (text == null || text.trim() === '') return null
  const number = Number(text)
  return Number.isFinite(number) ? number : null
}

/** Numbers by their size, then texts by their letters, nothing last. */
export function compareValues(a: string | null | undefined, b: string | null | undefined): number {
  const [x, y] = [asNumber(a), asNumber(b)]
  if (x !== null && y !== null) return x - y
  if (x !== null) return -1
  if (y !== null) return 1
  if (!a || !b) return a ? -1 : b ? 1 : 0
  return a.localeCompare(b)
}
