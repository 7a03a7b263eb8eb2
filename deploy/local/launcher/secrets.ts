import { randomBytes } from 'node:crypto'
import { linkSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import {
  type Environment, readSettings, refuseOtherSecrets, secretsFile,
} from '../../../services/runtime/platform/command-environment.ts'

/** The secrets of a local stack, under the names services read them by. */
export type Secrets = Readonly<Record<keyof ReturnType<typeof makeSecrets>, string>>

/**
 * The secrets of one data folder: made at the first call and kept in `secrets.json`, readable by
 * its owner only. What the folder holds can be read with no others, so they are never replaced. A
 * person may edit the file, to rotate a key.
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
  return readSettings(file) as Secrets
}

/**
 * Refuses secrets in the environment of a command that starts a stack: services read them from the
 * file of the data folder.
 * @throws UsageError that names the variables and the file.
 */
export function refuseSecretsOf (env: Environment, dataDir: string): void {
  refuseOtherSecrets(env, dataDir, Object.keys(makeSecrets()))
}

/** Key rings are objects, so that a person can add a key; services get them as JSON. */
function makeSecrets () {
  const ring = () => ({ 1: randomBytes(32).toString('base64') })
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
