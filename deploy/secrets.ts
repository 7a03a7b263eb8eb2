import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { Command } from 'commander'
import { KEY_CLASSES, STAGES } from '../services/topology.ts'

/** Where `compose.yaml` reads the values of its variables. */
const FILE = fileURLToPath(new URL('.env', import.meta.url))

/** Random secrets of a deployment, by the variable names of `compose.yaml`. */
function makeSecrets (): Readonly<Record<string, string>> {
  const key = () => randomBytes(32).toString('base64')
  // Passwords are part of URLs, so they contain nothing that needs escaping.
  const password = () => randomBytes(24).toString('base64url')
  return {
    ...Object.fromEntries(KEY_CLASSES.flatMap(name => {
      const setting = `${name.toUpperCase()}_ROOT_KEY`
      return [[`${setting}S`, `'${JSON.stringify({ 1: key() })}'`], [`${setting}_ACTIVE`, '1']]
    })),
    CACHE_SECRETS: `'${JSON.stringify({ 1: key() })}'`,
    CACHE_SECRET_ACTIVE: '1',
    MESSAGE_KEYS: `'${JSON.stringify({ 1: key() })}'`,
    MESSAGE_KEY_ACTIVE: '1',
    REDIS_STATE_PASSWORD: password(),
    REDIS_CACHE_PASSWORD: password(),
    REDIS_CACHE_PASSWORD_INGEST: password(),
    CLICKHOUSE_PASSWORD: password(),
    GRAFANA_PASSWORD: password(),
    ...Object.fromEntries(['admin', 'registry', ...STAGES].map(user =>
      [`KAFKA_PASSWORD_${user.toUpperCase()}`, password()])),
  }
}

/**
 * Adds missing secrets to a file; creates the file, readable only by its owner. Never changes
 * existing secrets: data that is sealed with their keys would become unreadable. Returns the added
 * names.
 */
function writeSecrets (file: string): readonly string[] {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  const present = new Set([...text.matchAll(/^(?:export\s+)?(\w+)\s*=/gm)].map(([, name]) => name))
  const missing = Object.entries(makeSecrets()).filter(([name]) => !present.has(name))
  if (missing.length === 0) return []
  const separator = text === '' || text.endsWith('\n') ? '' : '\n'
  const lines = missing.map(([name, value]) => `${name}=${value}\n`)
  appendFileSync(file, separator + lines.join(''), { mode: 0o600 })
  return missing.map(([name]) => name)
}

const { file } = new Command('secrets')
  .description('Creates the secrets of compose.yaml; existing ones do not change.')
  .option('--file <file>', 'where to', FILE)
  .parse().opts<{ file: string }>()
const added = writeSecrets(file)
console.log(added.length > 0
  ? `${file} has new secrets (${added.join(', ')}): keep a copy in a safe place`
  : `${file} has all secrets already`)
