import { readFileSync } from 'node:fs'
import { userInfo } from 'node:os'

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

/**
 * The environment of a command: variables that are set win, others come from the local stack of
 * `npm run up` in `folder`, if there is one.
 */
export function commandEnvironment (
  env: Environment = process.env, folder = '.local'
): Environment {
  const state = readJson(`${folder}/stack.json`)
  const local = Object.entries(ADDRESSES).map(([name, field]) => [name, state[field]] as const)
  const known = { ...readJson(`${folder}/secrets.json`), ...Object.fromEntries(local) }
  const given = Object.entries(env).filter(([, value]) => value !== undefined && value !== '')
  return { ...known, ...Object.fromEntries(given) }
}

/** The string fields of a JSON file; empty if the file does not exist. */
function readJson (file: string): Readonly<Record<string, string>> {
  try {
    const value = JSON.parse(readFileSync(file, 'utf8')) as Record<string, unknown>
    return Object.fromEntries(Object.entries(value).flatMap(([name, text]) =>
      typeof text === 'string' ? [[name, text]] : []))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw error
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
