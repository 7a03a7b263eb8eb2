import { hostname } from 'node:os'
import type { Command } from 'commander'
import Type from 'typebox'
import {
  commandEnvironment, type Environment, operatorName,
} from '../platform/command-environment.ts'
import { commonConfig, loadConfig, pick } from '../platform/config.ts'
import { connectRedisOrCluster } from '../platform/redis.ts'
import { createAccessLog } from './access-log.ts'
import { type AccessAction, type AccessEvent, INSTALLATION } from './entry.ts'

type Options = Readonly<Record<string, string | boolean | undefined>>

/**
 * The action of each command, by its words. Null for a command that only reads. A function decides
 * by the options.
 */
export type CommandActions =
  Readonly<Record<string, AccessAction | null | ((options: Options) => AccessAction | null)>>

/** Stores an entry on the stack in `env`. */
type Append = (env: Environment, event: AccessEvent) => Promise<void>

/** Records each command with an action before it runs; it does not run without its entry. */
export function recordCommands (
  program: Command, actions: CommandActions, append: Append = appendTo
): Command {
  return program.hook('preAction', async (_program, command) => {
    const options = command.optsWithGlobals<Options>()
    const found = actions[wordsOf(command)]
    const action = typeof found === 'function' ? found(options) : found
    if (action === undefined || action === null) return
    const env = commandEnvironment(process.env, String(options['data']))
    await append(env, eventOf(action, command, options))
  })
}

/** The words of a command after its program: `key create`. */
export function wordsOf (command: Command): string {
  const { parent } = command
  if (parent === null) return ''
  return `${wordsOf(parent)} ${command.name()}`.trim()
}

function eventOf (action: AccessAction, command: Command, options: Options): AccessEvent {
  const text = (name: string) => typeof options[name] === 'string' ? options[name] : undefined
  const [tenantOrganization] = text('tenant')?.split('.') ?? []
  const target = TARGETS.map(text).find(id => id !== undefined) ?? command.args[0] ?? text('name')
  const details = DETAILS.flatMap(name => {
    const value = text(name)
    return value === undefined ? [] : [[name, value] as const]
  })
  return {
    organization: text('org') ?? tenantOrganization ?? INSTALLATION,
    actor: { kind: 'operator', id: operatorName() },
    action,
    target: target ?? '',
    address: hostname(),
    details: Object.fromEntries(details),
  }
}

/** Options with the id of what a command is about. */
const TARGETS = ['key', 'endpoint', 'job', 'stage']

/** Options that an entry repeats. Addresses of webhooks are not among them: they may be secret. */
const DETAILS = [
  'mode', 'name', 'scopes', 'networks', 'expires', 'graceHours', 'usd', 'micros', 'id', 'reason',
  'trust', 'freshnessDays', 'weight', 'activeJobs', 'postBurst', 'postSustained', 'gets',
  'lowBalanceMicros', 'keyDays', 'events', 'partitions', 'principal', 'to', 'from', 'group',
  'topic', 'partition', 'by',
]

const config = Type.Object(pick(commonConfig, ['REDIS_STATE_URL']))

async function appendTo (env: Environment, event: AccessEvent): Promise<void> {
  const redis = await connectRedisOrCluster(loadConfig(config, env).REDIS_STATE_URL)
  try {
    await createAccessLog(redis).append(event)
  } finally {
    redis.disconnect()
  }
}
