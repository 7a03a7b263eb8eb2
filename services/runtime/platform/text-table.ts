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
    Math.max(title.length, ...rows.map(row => cellText(row[index]).length)))
  const formatLine = (cells: readonly Cell[]) => columns.map(({ right }, index) => {
    const text = cellText(cells[index])
    const width = widths[index] ?? 0
    const padded = right === true ? text.padStart(width) : text.padEnd(width)
    const cell = cells[index]
    return typeof cell === 'object' ? paint(cell.style, padded) : padded
  }).join('  ').trimEnd()
  const head = formatLine(columns.map(({ title }) => ({ text: title, style: 'bold' })))
  return [head, ...rows.map(formatLine)].join('\n')
}

function cellText (cell: Cell = ''): string {
  return typeof cell === 'string' ? cell : cell.text
}

type Row = Readonly<Record<string, unknown>>

/**
 * Formats records as a table with a column for each of their fields, except those that are empty in
 * all of them.
 */
export function recordsText (records: readonly Row[], paint: Paint = unpainted): string {
  const rows = records.map(record =>
    new Map(Object.entries(record).map(([name, value]) => [name, valueText(value)])))
  const names = [...new Set(rows.flatMap(row => [...row.keys()]))]
    .filter(name => rows.some(row => (row.get(name) ?? '') !== ''))
  const columns = names.map((title): Column =>
    records.every(record => typeof record[title] === 'number') ? { title, right: true } : { title })
  return tableText(columns, rows.map(row => names.map(name => row.get(name) || '-')), paint)
}

function valueText (value: unknown): string {
  if (value === null || value === undefined) return ''
  if (Array.isArray(value)) return value.map(valueText).join(',')
  if (typeof value === 'boolean') return value ? 'yes' : 'no'
  if (typeof value !== 'object') return String(value)
  return Object.entries(value).map(([name, field]) => `${name}=${valueText(field)}`).join(' ')
}
