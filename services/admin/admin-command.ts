import { hostname } from 'node:os'
import { Command } from 'commander'
import Type from 'typebox'
import {
  type AccessLog, type AccessAttempt, createAccessLog, recordAttempt,
} from '../accounts/access-log/access-log.ts'
import {
  type AccessAction, type AccessDescription, type AccessEvent, type AccessResult, INSTALLATION,
} from '../accounts/access-log/entry.ts'
import {
  commandEnvironment, type Environment, operatorName, refuseMissingStack,
} from '../runtime/platform/command-environment.ts'
import { commonConfig, loadConfig, pick } from '../runtime/platform/config.ts'
import { connectCommandRedis } from '../runtime/platform/redis.ts'
import { CommandFailure, UsageError } from '../runtime/platform/run-command.ts'

type Options = Readonly<Record<string, string | boolean | undefined>>

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
  | ((options: Options, env: Environment) => CommandAction | null | Promise<CommandAction | null>)

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
    const options = command.optsWithGlobals<Options>()
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
  const options = command.optsWithGlobals<Options>()
  const text = (name: string) => {
    const value = options[name]
    return value === undefined ? undefined : String(value)
  }
  const [tenantOrganization] = text('tenant')?.split('.') ?? []
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

/**
 * Options that an entry repeats. Addresses of webhooks are not among them: they may be secret. Nor
 * are names: they may be those of people, and entries are kept for ever.
 */
const DETAILS = [
  'mode', 'scopes', 'networks', 'expires', 'graceHours', 'usd', 'micros', 'id', 'reason',
  'trust', 'freshnessDays', 'weight', 'activeJobs', 'postBurst', 'postSustained', 'gets',
  'lowBalanceMicros', 'keyDays', 'events', 'partitions', 'principal', 'prices', 'trial',
  'from', 'group', 'topic', 'partition', 'by', 'role', 'since', 'diedOf', 'again', 'limit', 'job',
]

const config = Type.Object(pick(commonConfig, ['REDIS_STATE_URL']))

const appendTo: Append = async (env, event) => {
  const redis = await connectCommandRedis('REDIS_STATE_URL', loadConfig(config, env))
  try {
    await createAccessLog(redis).append(event)
  } finally {
    redis.disconnect()
  }
}
