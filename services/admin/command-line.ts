import { hostname } from 'node:os'
import { Command } from 'commander'
import {
  type AccessAction, type AccessAttempt, type AccessDescription, type AccessEvent, type AccessLog,
  type AccessResult, createAccessLog, INSTALLATION, recordAttempt,
} from '../accounts/access-log/access-log.ts'
import { OrganizationErasedError } from '../accounts/organization-keys.ts'
import type { Organization } from '../accounts/organizations.ts'
import type { AccountRecords } from '../accounts/records.ts'
import { isMode, isTenant, type Mode, MODES, parseTenant, tenantOf } from '../accounts/tenant.ts'
import type { Streams } from '../client/terminal.ts'
import { FrozenError } from '../money/wallet.ts'
import {
  commandEnvironment, type Environment, operatorName, refuseMissingStack,
} from '../runtime/platform/command-environment.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'
import { type Paint, paintFor, recordsText } from '../runtime/platform/text-table.ts'
import { type StageName, STAGES } from '../topology.ts'
import type { withDeadLetters } from './dead/letters.ts'
import { type withBrokers, withState, type withWorkspace, type WorkspaceDeps } from './deps.ts'

type Flags = Readonly<Record<string, string | boolean | undefined>>

/** The action of a command, and what its options do not say about it. */
type CommandAction = Pick<AccessEvent, 'action' | 'target' | 'details'> &
  Partial<Pick<AccessEvent, 'organization'>>

/**
 * What the access log records of a command: an action; null for one that only reads. A function
 * decides by the options, and may read the stack in `env`.
 */
export type Recording =
  | AccessAction
  | null
  | ((options: Flags, env: Environment) => CommandAction | null | Promise<CommandAction | null>)

/** A command whose definition has what the access log records of it, and examples. */
export class AdminCommand extends Command {
  /** What is known only once the command has run, for the access log. */
  result: AccessDescription | undefined
  #recording: Recording | undefined
  readonly #examples: { readonly words: string, readonly purpose: string }[] = []

  override createCommand (name?: string): AdminCommand {
    return new AdminCommand(name)
  }

  /** Sets what the access log records each time the command runs. */
  records (recording: Recording): this {
    this.#recording = recording
    return this
  }

  /** Says that the command changes and reveals nothing, so that the access log leaves it out. */
  reads (): this {
    return this.records(null)
  }

  /** Adds an example to the help: the words after those of the command, and what they are for. */
  example (words = '', purpose = ''): this {
    if (this.#examples.length === 0) this.addHelpText('after', () => this.#exampleText())
    this.#examples.push({ words, purpose })
    return this
  }

  /** The words of the command after its program: `key create`. */
  get words (): string {
    return this.parent === null
      ? ''
      : `${(this.parent as AdminCommand).words} ${this.name()}`.trimStart()
  }

  /**
   * What is recorded of the command.
   * @throws Error for a definition that does not say it.
   */
  get recording (): Recording {
    if (this.#recording !== undefined) return this.#recording
    throw new Error(`the definition of "${this.words}" does not say what is recorded of it: ` +
      'call records() or reads()')
  }

  #exampleText (): string {
    const lines = this.#examples.map(({ words, purpose }) =>
      ({ line: `npm run admin -- ${this.words} ${words}`.trimEnd(), purpose }))
    const width = Math.max(...lines.map(({ line }) => line.length))
    return [
      lines.length === 1 ? '\nExample:' : '\nExamples:',
      ...lines.map(({ line, purpose }) => `  ${line.padEnd(width)}  ${purpose}`.trimEnd()),
    ].join('\n')
  }
}

/** Stores an entry on the stack in `env`. */
type Append = (env: Environment, event: AccessEvent) => Promise<void>

/**
 * Records each command with an action: the attempt before it runs, its result when it has ended. A
 * command does not run without the entry of its attempt.
 */
export function recordCommands (
  program: AdminCommand, append: Append = appendTo
): Pick<Command, 'parseAsync'> {
  const running: { command?: AdminCommand, attempt?: AccessAttempt } = {}
  program.hook('preAction', async (_program, leaf) => {
    const command = leaf as AdminCommand
    const options = command.optsWithGlobals<Flags>()
    const folder = String(options['data'])
    const isFolderGiven = command.getOptionValueSourceWithGlobals('data') === 'cli'
    if (isFolderGiven) refuseMissingStack(process.env, folder)
    const env = commandEnvironment(process.env, folder)
    const { recording } = command
    const action = typeof recording === 'function' ? await recording(options, env) : recording
    if (action === null) return
    const event = toEvent(typeof action === 'string' ? { action } : action, command)
    running.command = command
    const log: AccessLog = {
      append: async entry => {
        await append(env, entry)
        return ''
      },
      withdraw: async () => false,
    }
    running.attempt = await recordAttempt(log, event)
  })
  const recordResult = async (result: AccessResult) => {
    const { command, attempt } = running
    await attempt?.record(result, command?.result).catch((error: unknown) => {
      console.error(`The command has ended (${result}), but the access log has only its attempt: ` +
        String(error))
    })
  }
  return {
    parseAsync: async (...words) => {
      try {
        await program.parseAsync(...words)
      } catch (error) {
        await recordResult(isRefusal(error) ? 'refused' : 'failed')
        throw error
      }
      const { exitCode = 0 } = process
      await recordResult(exitCode === 0 ? 'done' : exitCode === 1 ? 'incomplete' : 'failed')
      return program
    },
  }
}

/** Wrong usage, which a command finds before it changes anything. */
const isRefusal = (error: unknown) => error instanceof RangeError ||
  (error instanceof UsageError && !(error instanceof CommandFailure))

function toEvent (
  { action, organization, target, details }: CommandAction, command: Command
): AccessEvent {
  const unclear = command.options.map(option => option.attributeName())
    .filter(name => ![TARGETS, DETAILS, LEFT_OUT].flat().includes(name))
  if (unclear.length > 0) {
    throw new Error(`add ${unclear.join(', ')} to DETAILS or LEFT_OUT in ` +
      'services/admin/command-line.ts: entries of the access log repeat the options in DETAILS')
  }
  const options = command.optsWithGlobals<Flags>()
  const text = (name: string) => {
    const value = options[name]
    return value === undefined ? undefined : String(value)
  }
  const tenant = text('tenant')
  const tenantOrganization =
    tenant !== undefined && isTenant(tenant) ? parseTenant(tenant).orgId : tenant
  const named = [command.args.join(' '), ...TARGETS.map(text)].find(id => id) ?? ''
  const repeated = DETAILS.flatMap(name => {
    const value = text(name)
    return value === undefined || value === named ? [] : [[name, value] as const]
  })
  return {
    organization: organization ?? text('org') ?? tenantOrganization ?? INSTALLATION,
    actor: { kind: 'operator', id: operatorName() },
    action,
    target: target ?? named,
    address: hostname(),
    details: { ...Object.fromEntries(repeated), ...details },
  }
}

/** Options with the id of what a command is about. */
const TARGETS = ['key', 'endpoint', 'job', 'stage']

/** Options that an entry repeats. */
const DETAILS = [
  'mode', 'scopes', 'networks', 'expires', 'graceHours', 'usd', 'micros', 'id', 'reason',
  'trust', 'freshnessDays', 'weight', 'activeJobs', 'postBurst', 'postSustained', 'gets',
  'lowBalanceMicros', 'keyDays', 'events', 'partitions', 'principal', 'prices', 'trial',
  'from', 'group', 'topic', 'partition', 'by', 'role', 'since', 'diedOf', 'again', 'limit', 'job',
  'form',
]

/**
 * Options that an entry does not repeat. Addresses of webhooks may be secret, names and texts may
 * be those of people, and entries are kept for ever. Others say how a command runs.
 */
const LEFT_OUT = [
  'org', 'tenant', 'name', 'email', 'url', 'description', 'note', 'operator', 'open', 'yes', 'wait',
  'waitMinutes', 'format',
]

const appendTo: Append = async (env, event) => {
  await withState(env, redis => createAccessLog(redis).append(event))
}

/** What the commands use: a process and a stack. Tests replace some of it. */
export type Context = {
  /** Prints a result, without its last line end. */
  readonly print: (text: string) => void
  /** Where results go: colored if it is a terminal. */
  readonly terminal: { readonly isTTY?: boolean }
  /** Shows progress and questions, separately from the result. */
  readonly errors: Streams['errors']
  /** Where answers to questions come from. */
  readonly input: Streams['input']
  /** Runs work on the accounts and balances of a stack. */
  readonly open: typeof withWorkspace
  readonly brokers: typeof withBrokers
  readonly letters: typeof withDeadLetters
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

/** Throws what another command or a frozen balance prevents with what to do, and all else as is. */
function throwExplained (error: unknown): never {
  if (error instanceof FrozenError) {
    throw new UsageError(`${error.message}. No money was moved. See "A frozen tenant" in ` +
      'deploy/docs/recovery.md.', { cause: error })
  }
  if (error instanceof OrganizationErasedError) {
    throw new CommandFailure(`${error.message}. Another command erased it meanwhile, so nothing ` +
      'of this one is left.', { cause: error })
  }
  throw error
}

/** The action of a command that prints what it has done. */
export function runAndPrint<O = object> (
  { print, terminal }: Context,
  work: (call: CommandCall<O>, paint: Paint) => Promise<CommandOutcome>
): Action {
  return async (...words) => {
    const command = words.at(-1) as AdminCommand
    const call = readCall<O>(command)
    const paint = paintFor(terminal)
    const { data, text, described, isUndone } = await work(call, paint).catch(throwExplained)
    command.result = described
    print(call.json
      ? JSON.stringify(data)
      : text ?? Object.entries(data).map(field => fieldText(field, paint)).join('\n'))
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

/** What a task returns: printed as names and values, or as JSON. */
export type TaskResult = Readonly<Record<string, unknown>>

/** A `name: value` line, or a table for a list of records. */
function fieldText ([name, value]: readonly [string, unknown], paint: Paint): string {
  if (!Array.isArray(value)) {
    return `${name}: ${typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)}`
  }
  const all: readonly unknown[] = value
  if (all.length === 0) return `${name}: none`
  const records = all.filter(isRecord)
  return records.length === all.length
    ? `${name}:\n${recordsText(records, paint)}`
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
export async function shippingWarning (accounts: AccountRecords): Promise<TaskResult> {
  if (await accounts.areShipped()) return {}
  return {
    warning: 'The change is stored in Redis but not yet in Kafka: it is lost if Redis loses its ' +
      'files now. The leading ledger copies it to the topic "accounts"; check that ledger runs.',
  }
}
