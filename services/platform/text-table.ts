import { styleText } from 'node:util'
import type { Environment } from './command-environment.ts'

type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green'
export type Paint = (style: Style, text: string) => string

/** Leaves text as it is. */
export const unpainted: Paint = (_style, text) => text

/** Returns a function that colors text on a terminal, unless NO_COLOR is set. */
export function paintFor (
  { isTTY }: { readonly isTTY?: boolean }, { NO_COLOR: plain = '' }: Environment = process.env
): Paint {
  if (isTTY !== true || plain !== '') return unpainted
  return (style, text) => styleText(style, text, { validateStream: false })
}

export type Column = { readonly title: string, readonly right?: true }
export type Cell = string | { readonly text: string, readonly style: Style }

/** Formats aligned columns below their titles. Colors do not affect the alignment. */
export function tableText (
  columns: readonly Column[], rows: readonly (readonly Cell[])[], paint: Paint
): string {
  const widths = columns.map(({ title }, index) =>
    Math.max(title.length, ...rows.map(row => textOf(row[index]).length)))
  const lineOf = (cells: readonly Cell[]) => columns.map(({ right }, index) => {
    const text = textOf(cells[index])
    const width = widths[index] ?? 0
    const padded = right === true ? text.padStart(width) : text.padEnd(width)
    const cell = cells[index]
    return typeof cell === 'object' ? paint(cell.style, padded) : padded
  }).join('  ').trimEnd()
  const head = lineOf(columns.map(({ title }) => ({ text: title, style: 'bold' })))
  return [head, ...rows.map(lineOf)].join('\n')
}

function textOf (cell: Cell = ''): string {
  return typeof cell === 'string' ? cell : cell.text
}
