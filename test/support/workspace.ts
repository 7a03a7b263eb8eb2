import { rmSync, writeFileSync } from 'node:fs'
import { createAdminProgram } from '../../services/admin/program.ts'
import { rootSettingsIn } from './keys/organization-keys.ts'
import { newFolder } from './folder.ts'

type Env = Readonly<Record<string, string>>

/** The workspace commands on a stack, with a folder as `up` keeps it: addresses and secrets. */
export function openWorkspaceCommands (env: Env) {
  const folder = newFolder('verification-jobs-workspace-')
  writeFileSync(`${folder}/stack.json`, JSON.stringify({
    kafkaBrokers: env['KAFKA_BROKERS'],
    schemaRegistryUrl: env['SCHEMA_REGISTRY_URL'],
    redisStateUrl: env['REDIS_STATE_URL'],
    redisCacheUrl: env['REDIS_CACHE_URL'],
    clickhouseUrl: env['CLICKHOUSE_URL'],
  }))
  /** What the command shows as JSON; `secrets` are those of the folder for this once. */
  const workspace = async <T>(secrets: Env, ...words: readonly string[]): Promise<T> => {
    const { MESSAGE_KEYS, MESSAGE_KEY_ACTIVE } = env
    writeFileSync(`${folder}/secrets.json`, JSON.stringify({
      ...rootSettingsIn(secrets), MESSAGE_KEYS, MESSAGE_KEY_ACTIVE,
    }))
    const lines: string[] = []
    const program = createAdminProgram({ print: line => { lines.push(line) } })
    await program.parseAsync(['--data', folder, '--json', ...words], { from: 'user' })
    return JSON.parse(lines.join('\n')) as T
  }
  return { workspace, close: () => rmSync(folder, { recursive: true }) }
}
