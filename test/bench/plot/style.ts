import type { EChartsOption } from 'echarts'

/** A chart of the page, with its height in pixels; all are as wide. */
export type Panel = { readonly height: number, readonly option: EChartsOption }

export const WIDTH = 1_000
export const COLOURS = {
  good: '#2e8b57', fair: '#e0a100', bad: '#c0392b', line: '#555555',
} as const

/** Far enough apart to be distinguished on white, also in print. */
const SERIES = [
  '#1f6fb4', '#e07b00', '#2e8b57', '#c0392b', '#7d55b0', '#8a5a44', '#d264a8', '#6f6f6f',
  '#a8a820', '#17a2b8', '#0b3d66', '#8fbf5a', '#f0a58f', '#444466',
]

/** What all charts have in common: light, without motion, with room for labels. */
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

/** An axis with its name in the middle below it, or beside it. */
export function named (name: string, gap = 30) {
  return { name, nameLocation: 'middle' as const, nameGap: gap }
}
