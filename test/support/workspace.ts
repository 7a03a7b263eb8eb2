import { writeFileSync } from 'node:fs'
import { vi } from 'vitest'
import { runCommand } from './admin.ts'
import { rootSettingsIn } from './keys/organization-keys.ts'
import { newFolder } from './folder.ts'

type Env = Readonly<Record<string, string>>

/** The addresses of a stack as `up` keeps them. */
export const addressesIn = (env: Env) => ({
  kafkaBrokers: env['KAFKA_BROKERS'],
  schemaRegistryUrl: env['SCHEMA_REGISTRY_URL'],
  redisStateUrl: env['REDIS_STATE_URL'],
  redisCacheUrl: env['REDIS_CACHE_URL'],
  clickhouseUrl: env['CLICKHOUSE_URL'],
  pageUrl: env['PAGE_URL'],
})

/** A folder as `up` keeps it for a stack: addresses and secrets. */
export function stackFolder (env: Env): string {
  const folder = newFolder('verification-jobs-workspace-')
  writeFileSync(`${folder}/stack.json`, JSON.stringify(addressesIn(env)))
  writeSecrets(folder, env)
  return folder
}

function writeSecrets (folder: string, env: Env): void {
  const { MESSAGE_KEYS, MESSAGE_KEY_ACTIVE } = env
  writeFileSync(`${folder}/secrets.json`, JSON.stringify({
    ...rootSettingsIn(env), MESSAGE_KEYS, MESSAGE_KEY_ACTIVE,
  }))
}

/** The commands on a stack: what one shows as JSON, with these secrets in the folder for once. */
export function openWorkspaceCommands (env: Env) {
  const folder = stackFolder(env)
  const workspace = async <T>(secrets: Env, ...words: readonly string[]): Promise<T> => {
    writeSecrets(folder, { ...env, ...secrets })
    return JSON.parse(await runCommand(['--data', folder, '--json', ...words])) as T
  }
  return { workspace }
}

/** What `access-log` exports of an organization, and what it says about the whole log. */
export async function exportAccessLog (env: Env, org: string) {
  const shown = vi.spyOn(console, 'error').mockImplementation(() => {})
  try {
    const words = ['access-log', '--org', org, '--format', 'ndjson']
    const text = await runCommand(['--data', stackFolder(env), ...words])
    return {
      entries: text.split('\n').filter(line => line !== '')
        .map(line => JSON.parse(line) as Readonly<Record<string, string>>),
      said: shown.mock.calls.join('\n'),
      exitCode: process.exitCode,
    }
  } finally {
    process.exitCode = undefined
    shown.mockRestore()
  }
}
