import { randomBytes } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { Command } from 'commander'
import { STAGES } from '../services/topology.ts'

/** Where `compose.yaml` looks for the values of its variables. */
const FILE = fileURLToPath(new URL('.env', import.meta.url))

/** Random secrets of a deployment, by the names that `compose.yaml` asks for, as written there. */
export function makeSecrets (): Readonly<Record<string, string>> {
  const key = () => randomBytes(32).toString('base64')
  // Passwords stand in addresses, so they have nothing that would have to be escaped there.
  const password = () => randomBytes(24).toString('base64url')
  return {
    KEY_RING: `'${JSON.stringify({ k1: key() })}'`,
    KEY_ACTIVE: 'k1',
    CACHE_SECRETS: `'${JSON.stringify({ 1: key() })}'`,
    CACHE_SECRET_ACTIVE: '1',
    MESSAGE_KEYS: `'${JSON.stringify({ 1: key() })}'`,
    MESSAGE_KEY_ACTIVE: '1',
    REDIS_STATE_PASSWORD: password(),
    REDIS_CACHE_PASSWORD: password(),
    CLICKHOUSE_PASSWORD: password(),
    GRAFANA_PASSWORD: password(),
    ...Object.fromEntries(['admin', 'registry', ...STAGES].map(user =>
      [`KAFKA_PASSWORD_${user.toUpperCase()}`, password()])),
  }
}

/**
 * Writes new secrets to a file that only its owner reads. False, and nothing is written, when there
 * is one: what was sealed with its keys could never be read again.
 */
export function writeSecrets (file: string): boolean {
  const lines = Object.entries(makeSecrets()).map(([name, value]) => `${name}=${value}\n`)
  try {
    writeFileSync(file, lines.join(''), { mode: 0o600, flag: 'wx' })
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
    throw error
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  const { file } = new Command('secrets')
    .description('Makes the secrets of compose.yaml, once; a file that is there stays as it is.')
    .option('--file <file>', 'where to', FILE)
    .parse().opts<{ file: string }>()
  const made = writeSecrets(file)
  console.log(made ? `${file} made: keep a copy in a safe place` : `${file} is there already`)
}
