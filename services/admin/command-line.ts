import type { AccessDescription } from '../accounts/access-log/entry.ts'
import type { Organization } from '../accounts/organizations.ts'
import type { AccountRecords } from '../accounts/records.ts'
import { isMode, type Mode, MODES, tenantOf } from '../accounts/tenant.ts'
import { commandEnvironment, type Environment } from '../runtime/platform/command-environment.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { type Paint, paintFor, recordsText } from '../runtime/platform/text-table.ts'
import { type StageName, STAGES } from '../topology.ts'
import type { AdminCommand } from './admin-command.ts'
import type { withWorkspace, WorkspaceDeps } from './deps.ts'

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

/** What a command has done. */
export type CommandOutcome = {
  /** Printed with `--json`. */
  readonly data: object
  /** Printed without it; the fields of `data` by default. */
  readonly text?: string
  /** What the access log says of it. */
  readonly described?: AccessDescription
  /** Some of it is left to do: the exit code is 1. */
  readonly isUndone?: boolean
}

type Action = (...words: readonly unknown[]) => Promise<void>

/** The action of a command that prints what it has done. */
export function runAndPrint<O = object> (
  { print, terminal = {} }: Pick<Screen, 'print'> & Partial<Screen>,
  work: (call: CommandCall<O>, paint: Paint) => Promise<CommandOutcome>
): Action {
  return async (...words) => {
    const command = words.at(-1) as AdminCommand
    const call = readCall<O>(command)
    const { data, text, described, isUndone } = await work(call, paintFor(terminal))
    command.result = described
    print(call.json ? JSON.stringify(data) : text ?? Object.entries(data).map(fieldText).join('\n'))
    if (isUndone === true) process.exitCode = 1
  }
}

/** The action of a command that runs a task and prints its result. */
export function runTask (context: Context, task: Task): Action {
  return runAndPrint<Options>(context, async ({ env, options }) => {
    const data = await context.open(env, deps => task(deps, options))
    return { data, described: describeResult(data) }
  })
}

/** As `runTask`, of a task that changes accounts: warns when the change is only in Redis. */
export function runChange (context: Context, task: Task): Action {
  return runTask(context, async (deps, options) =>
    ({ ...await task(deps, options), ...await shippingWarning(deps.accounts) }))
}

/** The arguments of a command; `words` are those without an option. */
export type CommandCall<O> = {
  readonly words: readonly string[]
  readonly env: Environment
  readonly folder: string
  readonly json: boolean
  readonly options: O
}

type GlobalOptions = { readonly json?: true, readonly data: string }

/** Reads the arguments of a command: its own options, the global ones and the environment. */
export function readCall<O> (command: AdminCommand): CommandCall<O> {
  const { json, data, ...options } =
    command.optsWithGlobals<GlobalOptions & Record<string, unknown>>()
  return {
    words: command.args,
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
  const stage = STAGES.find(stage => stage === name)
  if (stage !== undefined) return stage
  throw new UsageError(`Stage ${name} does not exist. The stages are: ${STAGES.join(', ')}.`)
}

/** Rounds to the given number of decimals. */
export function round (number: number, decimals = 1): number {
  return Number(number.toFixed(decimals))
}

/** What a task returns: printed as names and values, or as JSON. */
export type TaskResult = Readonly<Record<string, unknown>>

/** A `name: value` line, or a table for a list of records. */
function fieldText ([name, value]: readonly [string, unknown]): string {
  if (!Array.isArray(value)) {
    return `${name}: ${typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)}`
  }
  const all: readonly unknown[] = value
  if (all.length === 0) return `${name}: none`
  const records = all.filter(isRecord)
  return records.length === all.length
    ? `${name}:\n${recordsText(records, paintFor(process.stdout))}`
    : [`${name}:`, ...all.map(item => `  ${String(item)}`)].join('\n')
}

const isRecord = (value: unknown): value is TaskResult =>
  typeof value === 'object' && value !== null

/** Options of the command line, as typed. */
export type Options = Readonly<Record<string, string>>

/** One command that works on accounts and balances; throws UsageError for invalid options. */
export type Task = (deps: WorkspaceDeps, options: Options) => Promise<TaskResult>

type OrganizationDeps = Pick<WorkspaceDeps, 'organizations'>

/** Fields of results that the access log repeats, if a result has them. */
const DESCRIBED = ['posting', 'state', 'version'] as const

/** What the access log says of a result: the id of what the command made, and no secret. */
function describeResult (result: TaskResult): AccessDescription {
  const { id, replaces } = result
  if (replaces !== undefined) return { details: { newKey: String(id) } }
  const details = DESCRIBED.flatMap(name =>
    result[name] === undefined ? [] : [[name, String(result[name])] as const])
  return { ...id !== undefined && { target: String(id) }, details: Object.fromEntries(details) }
}

/** The id in `--org`; throws UsageError when no such organization exists, or it was erased. */
export async function organizationToChange (
  deps: OrganizationDeps, options: Options
): Promise<string> {
  const { id, erasedAtMs } = await findOrganization(deps, options)
  if (erasedAtMs === undefined) return id
  throw new UsageError(`organization ${id} was erased on ${toIsoTime(erasedAtMs)}; commands can ` +
    'only read what is left of it, and "org erase" completes an interrupted erasure.')
}

/**
 * The id in `--org`, of an erased organization too: for commands that only read, and those that
 * complete its erasure. Throws UsageError when no such organization exists.
 */
export async function organizationToRead (
  deps: OrganizationDeps, options: Options
): Promise<string> {
  return (await findOrganization(deps, options)).id
}

async function findOrganization (
  { organizations }: OrganizationDeps, { org = '' }: Options
): Promise<Organization> {
  const organization = await organizations.find(org)
  if (organization !== undefined) return organization
  throw new UsageError(`organization "${org}" does not exist. Pass the id that "org create" ` +
    'printed: --org <id>.')
}

/** The value of `--mode`; throws UsageError for any other text. */
export function parseMode ({ mode = '' }: Options): Mode {
  if (!isMode(mode)) {
    throw new UsageError(`--mode must be one of ${MODES.join(', ')}, not "${mode}".`)
  }
  return mode
}

/**
 * The tenant that `--org` and `--mode` name.
 * @throws UsageError when the organization does not exist or was erased, or the mode is invalid.
 */
export async function tenantToChange (deps: WorkspaceDeps, options: Options): Promise<string> {
  return tenantOf(await organizationToChange(deps, options), parseMode(options))
}

/** The tenant that `--org` and `--mode` name, as `organizationToRead`. */
export async function tenantToRead (deps: WorkspaceDeps, options: Options): Promise<string> {
  return tenantOf(await organizationToRead(deps, options), parseMode(options))
}

export const HOUR_MS = 3_600_000
export const MINUTE_MS = 60_000

/** Parses a number from 0. Throws UsageError for any other text. */
export function parseFromZero (option: string, text = ''): number {
  const number = Number(text)
  if (text.trim() !== '' && Number.isFinite(number) && number >= 0) return number
  throw new UsageError(`${option} must be a number of at least 0, not "${text}".`)
}

/** Unix milliseconds as ISO 8601; null for 0, which means never. */
export function toIsoTime (ms: number): string | null {
  return ms === 0 ? null : new Date(ms).toISOString()
}

/** Waits some seconds until account changes are in Kafka; returns a warning if they are not. */
export async function shippingWarning (
  accounts: Pick<AccountRecords, 'areShipped'>
): Promise<TaskResult> {
  if (await accounts.areShipped()) return {}
  return {
    warning: 'The change is stored in Redis but not yet in Kafka: it is lost if Redis loses its ' +
      'files now. The leading ledger copies it to the topic "accounts"; check that ledger runs.',
  }
}
