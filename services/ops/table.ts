import type { Paint, Style } from './screen.ts'

export type Column = { readonly title: string, readonly right?: true }
export type Cell = string | { readonly text: string, readonly style: Style }

/** Lines of aligned columns under their titles; what a cell is painted with takes no room. */
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
