import { FatalError } from '../platform/errors.ts'
import { openSealed, SealError, sealPlain, type Binding } from './seal.ts'

export type KeyRing = {
  /** Wraps a data key under the active key; the result names the key it is wrapped by. */
  readonly wrap: (dataKey: Buffer, binding: Binding) => Buffer
  /**
   * The data key.
   * @throws FatalError when the ring lacks the key: putting it back loses nothing, going on would.
   * @throws SealError when the binding differs or the bytes were changed.
   */
  readonly unwrap: (wrapped: Buffer, binding: Binding) => Buffer
  /** The same data key under the active key; undefined when it is wrapped by that already. */
  readonly rewrap: (wrapped: Buffer, binding: Binding) => Buffer | undefined
  readonly activeKid: string
  readonly kids: readonly string[]
}

/** Something the ring wraps, and how to put it back under another key where it is stored. */
export type Wrapped = {
  readonly bytes: Buffer
  readonly binding: Binding
  /** False when somebody else has changed or removed it meanwhile. */
  readonly replace: (fresh: Buffer) => Promise<boolean>
}

/**
 * A ring of 32-byte keys (base64, by key id). The active key wraps; all others only unwrap, so a
 * key is retired by adding its successor, and only removed once nothing is wrapped by it any more.
 */
export function createKeyRing (
  config: { readonly KEY_RING: Readonly<Record<string, string>>, readonly KEY_ACTIVE: string }
): KeyRing {
  const keys = new Map(Object.entries(config.KEY_RING).map(([kid, text]) =>
    [kid, keyOf(kid, text)]))
  const activeKid = config.KEY_ACTIVE
  const activeKey = keys.get(activeKid)
  if (activeKey === undefined) throw new TypeError(`KEY_RING lacks key "${activeKid}" (KEY_ACTIVE)`)
  const wrap = (dataKey: Buffer, binding: Binding) => {
    const kid = Buffer.from(activeKid)
    const sealed = sealPlain(activeKey, ['wrap', activeKid, ...binding], dataKey)
    return Buffer.concat([Buffer.of(kid.length), kid, sealed])
  }
  const unwrap = (wrapped: Buffer, binding: Binding) => {
    const kid = kidOf(wrapped)
    const key = keys.get(kid)
    if (key === undefined) throw lacking(kid, binding)
    const sealed = wrapped.subarray(1 + Buffer.byteLength(kid))
    return ofItsOwn(openSealed(key, ['wrap', kid, ...binding], sealed))
  }
  const rewrap = (wrapped: Buffer, binding: Binding) =>
    kidOf(wrapped) === activeKid ? undefined : wrap(unwrap(wrapped, binding), binding)
  return { wrap, unwrap, rewrap, activeKid, kids: [...keys.keys()] }
}

/**
 * Small buffers are pieces of large ones: a key that is remembered would hold all of it in memory,
 * and a copy of the key would stay in it.
 */
function ofItsOwn (piece: Buffer): Buffer {
  const own = Buffer.alloc(piece.length)
  piece.copy(own)
  piece.fill(0)
  return own
}

/**
 * The id of the key that wraps a data key.
 * @throws SealError for bytes that no ring has wrapped.
 */
export function kidOf (wrapped: Buffer): string {
  const kid = wrapped.toString('utf8', 1, 1 + (wrapped[0] ?? 0))
  if (!KID.test(kid)) throw new SealError('not wrapped bytes')
  return kid
}

/** Broken bytes must not be taken for those of a key that the ring lacks. */
const KID = /^[\x21-\x7e]+$/

/** The binding says what it is that needs the key, and whose. */
function lacking (kid: string, [what = 'data-key', ...whose]: Binding): FatalError {
  const needs = [what, ...whose].map(String).join(' ')
  return new FatalError(`KEY_RING lacks key "${kid}", which wraps keys in use (${needs}): put it ` +
    'back until nothing is wrapped by it, as "npm run workspace -- keys list" tells')
}

function keyOf (kid: string, text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  const nameBytes = Buffer.byteLength(kid)
  if (nameBytes > 255 || !KID.test(kid)) {
    throw new TypeError('KEY_RING: a key id has 1 to 255 visible ASCII characters')
  }
  if (key.length !== 32) throw new TypeError(`KEY_RING: key "${kid}" is not 32 bytes of base64`)
  return key
}
