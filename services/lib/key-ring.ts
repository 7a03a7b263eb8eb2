import { FatalError } from './errors.ts'
import { openSealed, sealPlain, type Binding } from './seal.ts'

export type KeyRing = {
  /** Wraps a data key under the active key; the result names the key it is wrapped by. */
  readonly wrap: (dataKey: Buffer, binding: Binding) => Buffer
  /**
   * The data key.
   * @throws FatalError when the ring lacks the key: putting it back loses nothing, going on would.
   * @throws SealError when the binding differs or the bytes were changed.
   */
  readonly unwrap: (wrapped: Buffer, binding: Binding) => Buffer
  readonly activeKid: string
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
    const kidEnd = 1 + (wrapped[0] ?? 0)
    const kid = wrapped.toString('utf8', 1, kidEnd)
    const key = keys.get(kid)
    if (key === undefined) throw lacking(kid)
    return openSealed(key, ['wrap', kid, ...binding], wrapped.subarray(kidEnd))
  }
  return { wrap, unwrap, activeKid }
}

function lacking (kid: string): FatalError {
  return new FatalError(`KEY_RING lacks key "${kid}", which wraps keys in use: put it back`)
}

function keyOf (kid: string, text: string): Buffer {
  const key = Buffer.from(text, 'base64')
  const nameBytes = Buffer.byteLength(kid)
  if (nameBytes < 1 || nameBytes > 255) throw new TypeError('KEY_RING: a key id has 1 to 255 bytes')
  if (key.length !== 32) throw new TypeError(`KEY_RING: key "${kid}" is not 32 bytes of base64`)
  return key
}
