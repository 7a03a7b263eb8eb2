import { FatalError } from '../platform/errors.ts'
import { openSealed, SealError, sealPlain, type Binding } from './seal.ts'

export type KeyRing = {
  /** Wraps a data key with the active key; the result contains the id of that key. */
  readonly wrap: (dataKey: Buffer, binding: Binding) => Buffer
  /**
   * Unwraps a data key.
   * @throws FatalError when the wrapping key is not in the ring: a stop loses nothing, treating the
   * data key as erased would.
   * @throws SealError when the binding differs or the bytes were changed.
   */
  readonly unwrap: (wrapped: Buffer, binding: Binding) => Buffer
  /** The data key wrapped with the active key; undefined when it already is. */
  readonly rewrap: (wrapped: Buffer, binding: Binding) => Buffer | undefined
  readonly activeKid: string
  readonly kids: readonly string[]
}

/** A stored value wrapped by the ring, and how to replace it during a key rotation. */
export type Wrapped = {
  readonly bytes: Buffer
  readonly binding: Binding
  /** False when it was changed or removed in the meantime. */
  readonly replace: (fresh: Buffer) => Promise<boolean>
}

/**
 * A ring of 32-byte keys (base64, by key id). The active key wraps, the others only unwrap: to
 * retire a key, add its successor, and remove the key once nothing is wrapped by it.
 * @throws TypeError for an invalid key, or an active key that is not in the ring.
 */
export function createKeyRing (
  config: { readonly KEY_RING: Readonly<Record<string, string>>, readonly KEY_ACTIVE: string }
): KeyRing {
  const keys = new Map(Object.entries(config.KEY_RING).map(([kid, text]) =>
    [kid, keyOf(kid, text)]))
  const activeKid = config.KEY_ACTIVE
  const activeKey = keys.get(activeKid)
  if (activeKey === undefined) {
    throw new TypeError(`KEY_RING has no key "${activeKid}", which KEY_ACTIVE names: add it`)
  }
  const wrap = (dataKey: Buffer, binding: Binding) => {
    const kid = Buffer.from(activeKid)
    const sealed = sealPlain(activeKey, ['wrap', activeKid, ...binding], dataKey)
    return Buffer.concat([Buffer.of(kid.length), kid, sealed])
  }
  const unwrap = (wrapped: Buffer, binding: Binding) => {
    const kid = kidOf(wrapped)
    const key = keys.get(kid)
    if (key === undefined) throw missingKeyError(kid, binding)
    const sealed = wrapped.subarray(1 + Buffer.byteLength(kid))
    return unpooled(openSealed(key, ['wrap', kid, ...binding], sealed))
  }
  const rewrap = (wrapped: Buffer, binding: Binding) =>
    kidOf(wrapped) === activeKid ? undefined : wrap(unwrap(wrapped, binding), binding)
  return { wrap, unwrap, rewrap, activeKid, kids: [...keys.keys()] }
}

/**
 * Moves a key out of the buffer pool and clears its old place: a cached key would otherwise keep
 * the whole pool in memory.
 */
function unpooled (pooled: Buffer): Buffer {
  const key = Buffer.alloc(pooled.length)
  pooled.copy(key)
  pooled.fill(0)
  return key
}

/**
 * The id of the key that wraps a data key.
 * @throws SealError for bytes that are not wrapped.
 */
export function kidOf (wrapped: Buffer): string {
  const kid = wrapped.toString('utf8', 1, 1 + (wrapped[0] ?? 0))
  if (!KID.test(kid)) throw new SealError('wrapped data key is invalid: it has no key id')
  return kid
}

/** Distinguishes damaged bytes from those of a key that is not in the ring. */
const KID = /^[\x21-\x7e]+$/

/** The binding says what the wrapped key is for, and which tenant and job it belongs to. */
function missingKeyError (kid: string, [purpose = 'data-key', ...owner]: Binding): FatalError {
  const wrapped = [purpose, ...owner].map(String).join(' ')
  return new FatalError(`KEY_RING lacks key "${kid}", which wraps a key in use (${wrapped}): add ` +
    'it again until "npm run workspace -- keys list" shows that nothing is wrapped by it')
}

function keyOf (kid: string, text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  const nameBytes = Buffer.byteLength(kid)
  if (nameBytes > 255 || !KID.test(kid)) {
    throw new TypeError(`KEY_RING: key id "${kid}" must be 1 to 255 visible ASCII characters`)
  }
  if (key.length !== 32) throw new TypeError(`KEY_RING: key "${kid}" must be 32 bytes of base64`)
  return key
}
