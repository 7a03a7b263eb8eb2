import { styleText } from 'node:util'
import type { Command } from 'commander'
import { commandEnvironment, type Environment } from '../lib/command-environment.ts'

export type Style = 'bold' | 'dim' | 'red' | 'yellow' | 'green'
export type Paint = (style: Style, text: string) => string
export type Target = { readonly write: (text: string) => unknown, readonly isTTY?: boolean }

/** Where commands show what they found; replaced by tests. */
export type Screen = {
  /** Takes an answer, without its last end of line. */
  readonly print: (text: string) => void
  /** Where a live table is drawn, when it is a terminal. */
  readonly terminal: Target
  /** Where progress is shown, beside the answer. */
  readonly errors: Target
}

/** What every command of operators is told. */
export type Call<O> = {
  readonly env: Environment
  readonly folder: string
  readonly json: boolean
  readonly options: O
}

type Global = { readonly json?: true, readonly data: string }

/** Colours on a terminal, and plain text anywhere else or where NO_COLOR asks for it. */
export function paintFor (
  { isTTY }: Pick<Target, 'isTTY'>, { NO_COLOR: plain = '' }: Environment = process.env
): Paint {
  if (isTTY !== true || plain !== '') return (_style, text) => text
  return (style, text) => styleText(style, text, { validateStream: false })
}

/** The options of a command line with those that all commands share, and its environment. */
export function callOf<O> (command: Command): Call<O> {
  const { json, data, ...options } = command.optsWithGlobals<Global & Record<string, unknown>>()
  return {
    env: commandEnvironment(process.env, data),
    folder: data,
    json: json === true,
    options: options as O,
  }
}
