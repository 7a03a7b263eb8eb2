import { existsSync, readFileSync } from 'node:fs'
import { userInfo } from 'node:os'
import { UsageError } from './run-command.ts'

export type Environment = Readonly<Record<string, string | undefined>>

/** Fields of the state file of the local stack, by environment variable. */
const ADDRESSES = {
  KAFKA_BROKERS: 'kafkaBrokers',
  SCHEMA_REGISTRY_URL: 'schemaRegistryUrl',
  REDIS_STATE_URL: 'redisStateUrl',
  REDIS_CACHE_URL: 'redisCacheUrl',
  CLICKHOUSE_URL: 'clickhouseUrl',
  PAGE_URL: 'pageUrl',
} as const
/** What its services accept, which applies to no other stack. */
const RULES = {
  WEBHOOK_ALLOW_HTTP: 'webhookAllowHttp', WEBHOOK_ALLOW_LOOPBACK: 'webhookAllowLoopback',
} as const

/** Where the secrets of the local stack of a folder are kept, by environment variable. */
export const secretsFile = (folder: string): string => `${folder}/secrets.json`

/**
 * The environment of a command: variables that are set win, others come from the local stack of
 * `npm run up` in `folder`, if there is one.
 * @throws UsageError for secrets in `env` that are not those of the local stack, when the command
 * uses that stack, or for a password of Kafka without brokers in `env`.
 */
export function commandEnvironment (
  env: Environment = process.env, folder = '.local'
): Environment {
  const state = readSettings(`${folder}/stack.json`)
  const isLocal = state[ADDRESSES.REDIS_STATE_URL] !== undefined && !isSet(env.REDIS_STATE_URL)
  const local = Object.entries(isLocal ? { ...ADDRESSES, ...RULES } : ADDRESSES)
    .map(([name, field]) => [name, state[field]] as const)
  const secrets = readSettings(secretsFile(folder))
  if (isLocal) refuseOtherSecrets(env, folder, Object.keys(secrets))
  // A password goes to no address that a file in some folder names.
  const hasLocalBrokers = state[ADDRESSES.KAFKA_BROKERS] !== undefined && !isSet(env.KAFKA_BROKERS)
  if (hasLocalBrokers) refuseOtherSecrets(env, folder, ['KAFKA_SASL_PASSWORD'])
  const defaults = { ...secrets, ...Object.fromEntries(local) }
  const settings = Object.entries(env).filter(([, value]) => isSet(value))
  return { ...defaults, ...Object.fromEntries(settings) }
}

/**
 * Refuses the folder of a local stack that has none, unless `env` names another stack.
 * @throws UsageError that names the missing file.
 */
export function refuseMissingStack (env: Environment, folder: string): void {
  const file = `${folder}/stack.json`
  if (isSet(env.REDIS_STATE_URL) || existsSync(file)) return
  throw new UsageError(`${file} does not exist. Run "npm run up -- --data ${folder}" to create it.`)
}

const isSet = (value: string | undefined) => value !== undefined && value !== ''

/**
 * Refuses secrets in the environment that are not those in the file of a local stack. Services and
 * commands must use the same ones: what one of them wraps by another key, the others cannot read.
 * @throws UsageError that names the variables and the file.
 */
export function refuseOtherSecrets (
  env: Environment, folder: string, names: readonly string[]
): void {
  const file = secretsFile(folder)
  const secrets = readSettings(file)
  const others = names.filter(name => isSet(env[name]) && env[name] !== secrets[name])
  if (others.length === 0) return
  throw new UsageError(`The secrets of the local stack are in ${file}, but the environment has ` +
    `other values of ${others.join(', ')}. Unset them. To change a secret, edit the file, then ` +
    'run "npm run down" and "npm run up".')
}

/**
 * The fields of a JSON file as variables, objects as JSON; empty if the file does not exist.
 * @throws UsageError for a file that is not JSON, without its text, which may have secrets.
 */
export function readSettings (file: string): Readonly<Record<string, string>> {
  try {
    const value = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
    return Object.fromEntries(Object.entries(value).map(([name, field]) =>
      [name, typeof field === 'string' ? field : JSON.stringify(field)]))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    if (!(error instanceof SyntaxError)) throw error
    throw new UsageError(`${file} is not valid JSON. Restore it from a backup, or remove it if ` +
      'its stack is not needed, and run "npm run up".')
  }
}

/** The account of the operator on this machine; '' in a container whose user has no name. */
export function operatorName (): string {
  try {
    return userInfo().username
  } catch {
    return ''
  }
}
