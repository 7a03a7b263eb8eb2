import { hostname } from 'node:os'
import type { Command } from 'commander'
import Type from 'typebox'
import {
  commandEnvironment, type Environment, operatorName, refuseMissingStack,
} from '../platform/command-environment.ts'
import { commonConfig, loadConfig, pick } from '../platform/config.ts'
import { connectCommandRedis } from '../platform/redis.ts'
import { CommandFailure, UsageError } from '../platform/run-command.ts'
import { type AccessLog, type AccessAttempt, createAccessLog, recordAttempt } from './access-log.ts'
import {
  type AccessAction, type AccessDescription, type AccessEvent, type AccessResult, INSTALLATION,
} from './entry.ts'

type Options = Readonly<Record<string, string | boolean | undefined>>

/** The action of a command, and what its options do not say about it. */
type CommandAction = Pick<AccessEvent, 'action' | 'target' | 'details'> &
  Partial<Pick<AccessEvent, 'organization'>>

/**
 * The action of each command, by its words. Null for a command that only reads. A function decides
 * by the options, and may read the stack in `env`.
 */
export type CommandActions = Readonly<Record<
  string,
  | AccessAction
  | null
  | ((options: Options, env: Environment) => CommandAction | null | Promise<CommandAction | null>)
>>

/** Stores an entry on the stack in `env`. */
type Append = (env: Environment, event: AccessEvent) => Promise<void>

/**
 * Records each command with an action: the attempt before it runs, its result when it has ended. A
 * command does not run without the entry of its attempt.
 */
export function recordCommands (
  program: Command, actions: CommandActions, append: Append = appendTo
): Pick<Command, 'parseAsync'> {
  const running: { command?: Command, attempt?: AccessAttempt } = {}
  program.hook('preAction', async (_program, command) => {
    const options = command.optsWithGlobals<Options>()
    const folder = String(options['data'])
    const isFolderGiven = command.getOptionValueSourceWithGlobals('data') === 'cli'
    if (isFolderGiven) refuseMissingStack(process.env, folder)
    const env = commandEnvironment(process.env, folder)
    const found = actions[wordsOf(command)] ?? null
    const action = typeof found === 'function' ? await found(options, env) : found
    if (action === null) return
    const event = eventOf(typeof action === 'string' ? { action } : action, command)
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
    await attempt?.record(result, command && descriptions.get(command)).catch((error: unknown) => {
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
      await recordResult(resultOf(process.exitCode))
      return program
    },
  }
}

const descriptions = new WeakMap<Command, AccessDescription>()

/** Adds to the result of a command in the access log what is known only once it has run. */
export function describeCommand (command: Command, about: AccessDescription): void {
  descriptions.set(command, about)
}

/** The result of a command that ended without an error, by its exit code. */
function resultOf (exitCode: typeof process.exitCode = 0): AccessResult {
  if (exitCode === 0) return 'done'
  return exitCode === 1 ? 'incomplete' : 'failed'
}

/** Wrong usage, which a command finds before it changes anything. */
const isRefusal = (error: unknown) => error instanceof RangeError ||
  (error instanceof UsageError && !(error instanceof CommandFailure))

/** The words of a command after its program: `key create`. */
export function wordsOf (command: Command): string {
  const { parent } = command
  if (parent === null) return ''
  return `${wordsOf(parent)} ${command.name()}`.trim()
}

function eventOf (
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
