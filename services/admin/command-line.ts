import { commandEnvironment, type Environment } from '../runtime/platform/command-environment.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { STAGES, type StageName } from '../topology.ts'
import type { AdminCommand } from './admin-command.ts'
import type { withWorkspace } from './deps.ts'
import {
  describeResult, printResult, shippingWarning, type Options, type Task,
} from './options.ts'

/** The output of a command. */
export type Screen = {
  /** Prints a result, without its last line end. */
  readonly print: (text: string) => void
  /** Where results go: colored if it is a terminal. */
  readonly terminal: { readonly isTTY?: boolean }
  /** Shows progress, separately from the result. */
  readonly errors: { readonly write: (text: string) => unknown, readonly isTTY?: boolean }
}

/** What the commands use. Tests replace it. */
export type Context = Screen & {
  /** Runs work on the accounts and balances of a stack. */
  readonly open: typeof withWorkspace
}

type Action = (options: object, command: AdminCommand) => Promise<void>

/** The action of a command that runs a task and prints its result. */
export function runTask ({ print, open }: Context, task: Task): Action {
  return async (_options, command) => {
    const { env, json, options } = callOf<Options>(command)
    const result = await open(env, deps => task(deps, options))
    command.result = describeResult(result)
    printResult(print, result, json)
  }
}

/** As `runTask`, of a task that changes accounts: warns when the change is only in Redis. */
export function runChange (context: Context, task: Task): Action {
  return runTask(context, async (deps, options) =>
    ({ ...await task(deps, options), ...await shippingWarning(deps.accounts) }))
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
export function callOf<O> (command: AdminCommand): CommandCall<O> {
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
