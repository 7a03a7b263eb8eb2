import type { EChartsOption } from 'echarts'

/** A chart of the page and its height in pixels; all have the same width. */
export type Panel = { readonly height: number, readonly option: EChartsOption }

export const WIDTH = 1_000
export const COLORS = {
  good: '#2e8b57', fair: '#e0a100', bad: '#c0392b', line: '#555555',
} as const

/** Distinguishable on white, also in print. */
const SERIES = [
  '#1f6fb4', '#e07b00', '#2e8b57', '#c0392b', '#7d55b0', '#8a5a44', '#d264a8', '#6f6f6f',
  '#a8a820', '#17a2b8', '#0b3d66', '#8fbf5a', '#f0a58f', '#444466',
]

/** The common style of all charts: light, and without animation. */
export function chart (title: string, option: EChartsOption): EChartsOption {
  return {
    animation: false,
    backgroundColor: '#ffffff',
    color: SERIES,
    textStyle: { fontFamily: 'sans-serif', fontSize: 13, color: '#222222' },
    title: { text: title, left: 12, top: 10, textStyle: { fontSize: 16, color: '#222222' } },
    ...option,
  }
}

/** Centers the title of an axis. */
export function titled (name: string, gap = 30) {
  return { name, nameLocation: 'middle' as const, nameGap: gap }
}
