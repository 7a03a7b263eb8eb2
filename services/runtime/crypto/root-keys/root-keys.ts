import type { Environment } from '../../platform/command-environment.ts'
import { ConfigError, nameKey } from '../../platform/config.ts'
import type { FatalError } from '../../platform/errors.ts'
import { rootKeyDigest } from '../../platform/root-key-holders.ts'
import { checkKeyId, MissingKeyError, splitKeyId, unpooled, withKeyId } from '../key-ring.ts'
import { type Binding, openSealed, SealError, sealPlain } from '../seal.ts'
import { awsKmsRootKey } from './aws-kms.ts'
import {
  measureCalls, type KeyContext, type RootKey, type RootKeyEntry, type RootKeyMetrics,
  type RootKeyProvider,
} from './root-key.ts'
import { vaultRootKey } from './vault.ts'

/** The root keys of a class of organization keys. They encrypt nothing else. */
export type RootKeys = {
  readonly activeId: string
  /** What `rootKeyDigest` returns for the active one. */
  readonly activeDigest?: string | undefined
  readonly ids: readonly string[]
  /** Wraps 32 bytes with the active root key: length of its id, id, ciphertext of its provider. */
  readonly wrap: (key: Buffer, context: KeyContext) => Promise<Buffer>
  /**
   * Unwraps with the root key of that id, active or not.
   * @throws FatalError when it is not configured, or does not unwrap these bytes in this context,
   * most probably because its value was changed: a stop loses nothing, treating the organization
   * key as erased would.
   * @throws SealError for bytes that no root key can have wrapped.
   * @throws InfrastructureError while the provider is unavailable or denies access.
   */
  readonly unwrap: (wrapped: Buffer, context: KeyContext) => Promise<Buffer>
}

export type RootKeyConfig = {
  /** Where each root key is, by id. */
  readonly keys: Readonly<Record<string, string>>
  readonly active: string
  /** The name of the setting that `keys` is from, for errors. */
  readonly setting: string
}

export type RootKeyOptions = {
  /** Where Vault is, and its token. The AWS SDK reads `process.env`. */
  readonly env?: Environment
  /** How long a call of a provider may take. */
  readonly timeoutMs?: number
  /** Counts calls of providers; commands have none. */
  readonly metrics?: RootKeyMetrics | undefined
}

/** Bytes of an organization key, and of a local root key. */
const KEY_BYTES = 32

/** The most that AWS KMS accepts; the ciphertext of 32 bytes is far shorter everywhere. */
const MAX_CIPHERTEXT_BYTES = 6_144

/**
 * Creates root keys. Each is the base64 of 32 bytes, which is the key itself,
 * `aws-kms:<key id, alias or ARN>`, or `vault:<mount>/<key name>`. Nothing is called before the
 * first key is wrapped or unwrapped.
 * @throws ConfigError for an invalid configuration.
 */
export function createRootKeys (
  { keys, active, setting }: RootKeyConfig, options: RootKeyOptions = {}
): RootKeys {
  const roots = new Map(Object.entries(keys).map(([id, where]) =>
    [id, rootKeyOf({ id, where, setting }, options)]))
  const activeRoot = roots.get(active)
  if (activeRoot === undefined) {
    throw new ConfigError([`${setting} has no ${nameKey(active)}, which is the active one: add it`])
  }
  const wrap = async (key: Buffer, context: KeyContext) => {
    if (key.length !== KEY_BYTES) throw new TypeError(`a key must have ${KEY_BYTES} bytes`)
    return withKeyId(active, await activeRoot.encrypt(key, context))
  }
  const unwrap = async (wrapped: Buffer, context: KeyContext) => {
    const { id, content: ciphertext } = splitKeyId(wrapped)
    const root = roots.get(id)
    if (root === undefined) {
      throw new MissingKeyError(`${setting} lacks key "${id}"`, {
        wraps: wrapsOf(context), advice: 'add it again until nothing is wrapped by it',
      })
    }
    if (ciphertext.length === 0 || ciphertext.length > MAX_CIPHERTEXT_BYTES) {
      throw new SealError(`wrapped key is invalid: its ciphertext has ${ciphertext.length} bytes`)
    }
    const key = await root.decrypt(ciphertext, context).catch((error: unknown) => {
      throw error instanceof SealError ? wrongRootError(id, setting, context) : error
    })
    if (key.length !== KEY_BYTES) {
      throw new SealError(`unwrapped key has ${key.length} bytes: expected ${KEY_BYTES}`)
    }
    return unpooled(key)
  }
  const activeDigest = rootKeyDigest(keys[active] ?? '')
  return { wrap, unwrap, activeId: active, activeDigest, ids: [...roots.keys()] }
}

/**
 * The id of the root key that wraps an organization key.
 * @throws SealError for bytes that are not wrapped.
 */
export const rootIdOf = (wrapped: Buffer): string => splitKeyId(wrapped).id

const wrapsOf = ({ purpose, organization }: KeyContext) => `${purpose} of ${organization}`

/** A local key and Vault cannot distinguish a wrong key from damaged bytes. */
function wrongRootError (id: string, setting: string, context: KeyContext): FatalError {
  return new MissingKeyError(`${setting} has another value for key "${id}"`, {
    wraps: wrapsOf(context),
    advice: 'set it back to the value that wrapped the key, and give another value another id; ' +
      'if it was never changed, the wrapped key is damaged: restart every ledger, which ' +
      'restores it from topic organization.keys',
  })
}

/** The value of an entry may be a key, or contain one by mistake, so no error shows it. */
function rootKeyOf (
  entry: RootKeyEntry, { env = process.env, timeoutMs = 5_000, metrics }: RootKeyOptions
): RootKey {
  const { id, where, setting } = entry
  checkKeyId(id, setting)
  const provider = /^([\w-]+):/.exec(where)?.[1]
  if (provider === undefined) return localRootKey(entry)
  const measured = (root: RootKey, name: RootKeyProvider) =>
    metrics === undefined ? root : measureCalls(root, name, metrics)
  if (provider === 'aws-kms') return measured(awsKmsRootKey(entry, timeoutMs), provider)
  if (provider === 'vault') return measured(vaultRootKey(entry, env, timeoutMs), provider)
  throw new ConfigError([`${setting}: ${nameKey(id)} has an unknown provider: use ` +
    'aws-kms:<key id, alias or ARN>, vault:<mount>/<key name>, or the base64 of 32 bytes'])
}

/** A key in the memory of this process: AES-256-GCM. */
function localRootKey ({ id, where, setting }: RootKeyEntry): RootKey {
  const key = Buffer.from(where, 'base64')
  if (key.length !== KEY_BYTES || key.toString('base64') !== where) {
    throw new ConfigError([`${setting}: ${nameKey(id)} must be ${KEY_BYTES} bytes of base64: ` +
      `create one with "openssl rand -base64 ${KEY_BYTES}"`])
  }
  const bindingOf = ({ purpose, organization }: KeyContext): Binding =>
    ['root-key', id, purpose, organization]
  return {
    encrypt: async (plain, context) => sealPlain(key, bindingOf(context), plain),
    decrypt: async (ciphertext, context) => openSealed(key, bindingOf(context), ciphertext),
  }
}
