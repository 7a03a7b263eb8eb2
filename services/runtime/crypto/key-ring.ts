import { ConfigError, nameKey } from '../platform/config.ts'
import { FatalError } from '../platform/errors.ts'
import { type Binding, openSealed, SealError, sealPlain } from './seal.ts'

export type KeyRing = ReturnType<typeof createKeyRing>

/**
 * A root key or a key of an organization is missing, which wraps keys in use. `lack` names it and
 * says what to do, in the same words for all that it wraps.
 */
export class MissingKeyError extends FatalError {
  readonly lack: string

  constructor (
    key: string, { wraps, advice }: { readonly wraps: string, readonly advice: string }
  ) {
    super(`${key}, which wraps a key in use (${wraps}): ${advice}`)
    this.lack = `${key}: ${advice}`
  }
}

/** A key of one organization is missing. Stages go on with the messages of others. */
export class MissingOrganizationKeyError extends MissingKeyError {}

/**
 * A ring of 32-byte keys, by key id. The active key wraps, the others only unwrap: to retire a key,
 * add its successor, and remove the key once nothing is wrapped by it.
 * @throws TypeError for an invalid key, or an active key that is not in the ring.
 */
export function createKeyRing (
  { name, keys, active }: {
    /** For errors. */
    readonly name: string
    readonly keys: ReadonlyMap<string, Buffer>
    readonly active: string
  }
) {
  for (const [id, { length }] of keys) {
    checkKeyId(id, name)
    if (length !== 32) {
      throw new TypeError(`${name}: ${nameKey(id)} has ${length} bytes, expected 32`)
    }
  }
  const activeKey = keys.get(active)
  if (activeKey === undefined) {
    throw new TypeError(`${name} has no active ${nameKey(active)}: add it`)
  }
  return {
    /** Wraps a key or a secret with the active key; the result contains the id of that key. */
    wrap: (plain: Buffer, binding: Binding): Buffer =>
      withKeyId(active, sealPlain(activeKey, ['wrap', active, ...binding], plain)),

    /**
     * @throws FatalError when the wrapping key is not in the ring: a stop loses nothing, treating
     * the wrapped key as erased would.
     * @throws SealError when the binding differs or the bytes were changed.
     */
    unwrap: (wrapped: Buffer, binding: Binding): Buffer => {
      const { id, content } = splitKeyId(wrapped)
      const key = keys.get(id)
      if (key === undefined) throw missingKeyError({ name, id, binding })
      return unpooled(openSealed(key, ['wrap', id, ...binding], content))
    },
  }
}

/** Puts the id of the wrapping key before what it wrapped: length of the id, id, content. */
export function withKeyId (id: string, content: Buffer): Buffer {
  return Buffer.concat([Buffer.of(Buffer.byteLength(id)), Buffer.from(id), content])
}

/**
 * The id of the wrapping key, and what it wrapped.
 * @throws SealError for bytes that are not wrapped.
 */
export function splitKeyId (
  wrapped: Buffer
): { readonly id: string, readonly content: Buffer } {
  const end = 1 + (wrapped[0] ?? 0)
  const id = wrapped.toString('utf8', 1, end)
  if (!KEY_ID.test(id)) throw new SealError('wrapped key is invalid: it has no key id')
  return { id, content: wrapped.subarray(end) }
}

/** @throws ConfigError for an id that cannot precede a wrapped key. */
export function checkKeyId (id: string, name: string): void {
  if (Buffer.byteLength(id) <= 255 && KEY_ID.test(id)) return
  throw new ConfigError([`${name}: the id of ${nameKey(id)} must be 1 to 255 visible ` +
    'ASCII characters'])
}

/** Distinguishes damaged bytes from those of a key that is not in the ring. */
const KEY_ID = /^[\x21-\x7e]+$/

/**
 * Moves a key out of the buffer pool and clears its old place: a cached key would otherwise keep
 * the whole pool in memory.
 */
export function unpooled (pooled: Buffer): Buffer {
  const key = Buffer.alloc(pooled.length)
  pooled.copy(key)
  pooled.fill(0)
  return key
}

/** The binding says what the wrapped key is for, and which tenant and job it belongs to. */
function missingKeyError (
  { name, id, binding: [purpose = 'key', ...owner] }:
  { readonly name: string, readonly id: string, readonly binding: Binding }
): FatalError {
  const wrapped = [purpose, ...owner].map(String).join(' ')
  return new FatalError(`${name} lacks key "${id}", which wraps a key in use (${wrapped}): add ` +
    'it again until "npm run admin -- keys list" shows that nothing is wrapped by it')
}
