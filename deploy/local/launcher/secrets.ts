import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'

/** The secrets of a local stack, under the names services read them by. */
export type Secrets = Readonly<Record<
  'RESULTS_ROOT_KEYS' | 'RESULTS_ROOT_KEY_ACTIVE' | 'WEBHOOKS_ROOT_KEYS' |
  'WEBHOOKS_ROOT_KEY_ACTIVE' | 'PARTNERS_ROOT_KEYS' | 'PARTNERS_ROOT_KEY_ACTIVE' |
  'CACHE_SECRETS' | 'CACHE_SECRET_ACTIVE' | 'MESSAGE_KEYS' | 'MESSAGE_KEY_ACTIVE', string
>>

/** Where the secrets of a data folder are kept. */
export const secretsFile = (dataDir: string): string => `${dataDir}/secrets.json`

/**
 * The secrets of one data folder: made at the first call and kept in `secrets.json`, readable by
 * its owner only. What the folder holds can be read with no others, so they are never replaced.
 * `more` is kept along with them when they are made.
 */
export function loadSecrets (
  dataDir: string, more: Readonly<Record<string, string>> = {}
): Secrets {
  const file = secretsFile(dataDir)
  mkdirSync(dataDir, { recursive: true })
  const fresh = `${file}.${process.pid}`
  writeFileSync(fresh, JSON.stringify({ ...makeSecrets(), ...more }, null, 2), { mode: 0o600 })
  try {
    // A link fails when the name exists: of two starts at once, the first one's secrets stay.
    linkSync(fresh, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  } finally {
    rmSync(fresh)
  }
  return JSON.parse(readFileSync(file, 'utf8'))
}

function makeSecrets (): Secrets {
  const ring = () => JSON.stringify({ 1: randomBytes(32).toString('base64') })
  return {
    RESULTS_ROOT_KEYS: ring(),
    RESULTS_ROOT_KEY_ACTIVE: '1',
    WEBHOOKS_ROOT_KEYS: ring(),
    WEBHOOKS_ROOT_KEY_ACTIVE: '1',
    PARTNERS_ROOT_KEYS: ring(),
    PARTNERS_ROOT_KEY_ACTIVE: '1',
    CACHE_SECRETS: ring(),
    CACHE_SECRET_ACTIVE: '1',
    MESSAGE_KEYS: ring(),
    MESSAGE_KEY_ACTIVE: '1',
  }
}
