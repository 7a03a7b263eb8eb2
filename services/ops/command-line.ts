import { styleText } from 'node:util'
import type { Command } from 'commander'
import { commandEnvironment, type Environment } from '../platform/command-environment.ts'
import { UsageError } from '../platform/run-command.ts'
import { STAGES, type StageName } from '../topology.ts'

type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green'
export type Paint = (style: Style, text: string) => string
type Target = { readonly write: (text: string) => unknown, readonly isTTY?: boolean }

/** The output of a command. Tests replace it. */
export type Screen = {
  /** Prints a result, without its last line end. */
  readonly print: (text: string) => void
  /** Shows a live table, if it is a terminal. */
  readonly terminal: Target
  /** Shows progress, separately from the result. */
  readonly errors: Target
}

/** The arguments of a command. */
export type CommandCall<O> = {
  readonly env: Environment
  readonly folder: string
  readonly json: boolean
  readonly options: O
}

type GlobalOptions = { readonly json?: true, readonly data: string }

/** Returns the arguments of a command: its own options, the global ones and the environment. */
export function callOf<O> (command: Command): CommandCall<O> {
  const { json, data, ...options } =
    command.optsWithGlobals<GlobalOptions & Record<string, unknown>>()
  return {
    env: commandEnvironment(process.env, data),
    folder: data,
    json: json === true,
    options: options as O,
  }
}

/** Parses a number above 0. Throws UsageError for any other text. */
export function parsePositive (option: string, text: string): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number > 0) return number
  throw new UsageError(`${option} ${text} is not a number above 0.`)
}

/** Parses an integer from 0. Throws UsageError for any other text. */
export function parseInteger (option: string, text: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  throw new UsageError(`${option} ${text} is not an integer from 0.`)
}

/** Parses the name of a stage. Throws UsageError with all names for any other text. */
export function parseStage (name: string): StageName {
  const stage = STAGES.find(known => known === name)
  if (stage !== undefined) return stage
  throw new UsageError(`Stage ${name} does not exist. The stages are: ${STAGES.join(', ')}.`)
}

/** Rounds to the given number of decimals. */
export function round (number: number, decimals = 1): number {
  return Number(number.toFixed(decimals))
}

/** Returns a function that colours text on a terminal, unless NO_COLOR is set. */
export function paintFor (
  { isTTY }: Pick<Target, 'isTTY'>, { NO_COLOR: plain = '' }: Environment = process.env
): Paint {
  if (isTTY !== true || plain !== '') return (_style, text) => text
  return (style, text) => styleText(style, text, { validateStream: false })
}

export type Column = { readonly title: string, readonly right?: true }
export type Cell = string | { readonly text: string, readonly style: Style }

/** Formats aligned columns below their titles. Colours do not affect the alignment. */
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
