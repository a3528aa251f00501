// uPlot as a part of the page: made once, fed with new data, drawn in the colours of the theme.
import type { JSX } from 'preact'
import { useEffect, useRef } from 'preact/hooks'
import uPlot from 'uplot'
import 'uplot/dist/uPlot.min.css'
import { useStore } from '../state/store'
import { isDark } from '../state/theme'

interface Props {
  data: uPlot.AlignedData
  height: number
  label: string
  /** Made anew when this changes, or the theme. */
  shape: string
  options: (width: number, colour: (name: string) => string) => Omit<uPlot.Options, 'width' | 'height'>
}

export function cssColour(name: string): string {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim()
}

export function Chart({ data, height, label, shape, options }: Props): JSX.Element {
  const holder = useRef<HTMLDivElement>(null)
  const plot = useRef<uPlot | null>(null)
  const newest = useRef(data)
  newest.current = data
  const dark = useStore(isDark)

  useEffect(() => {
    const element = holder.current
    if (!element) return
    const make = () => {
      const width = element.clientWidth
      plot.current = new uPlot({ ...options(width, cssColour), width, height }, newest.current, element)
    }
    make()
    const sizes = new ResizeObserver(() => {
      const width = element.clientWidth
      if (plot.current && width > 0 && width !== plot.current.width) plot.current.setSize({ width, height })
    })
    sizes.observe(element)
    return () => {
      sizes.disconnect()
      plot.current?.destroy()
      plot.current = null
    }
  }, [shape, dark, height])

  useEffect(() => plot.current?.setData(data), [data])
  return <div class="chart" ref={holder} role="img" aria-label={label} style={{ height: `${height}px` }} />
}
