import { hash } from 'node:crypto'

/** Bytes that SHA-256 works on at once, and those of its digest. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** What the two halves of an HMAC are begun with (RFC 2104). */
const INNER = 0x36
const OUTER = 0x5c

/** Writes the first bytes of a text's HMAC into `target` from `at` on. */
export type Mac = (text: string, target: Buffer, at: number) => void

/**
 * HMAC-SHA256 (RFC 2104) of short texts in UTF-8 under one key of at most 64 bytes, cut to so many
 * bytes. It is put together from two digests: the runtime's own HMAC makes objects for every text
 * that cost three times as much as the digests themselves.
 */
export function createMac (key: Buffer, bytes: number): Mac {
  if (key.length > BLOCK_BYTES) throw new RangeError(`a key has at most ${BLOCK_BYTES} bytes`)
  let inner = begun(key, INNER, 1_024)
  const outer = begun(key, OUTER, DIGEST_BYTES)
  return (text, target, at) => {
    // A UTF-16 unit is at most three bytes of UTF-8.
    if (text.length * 3 > inner.length - BLOCK_BYTES) inner = begun(key, INNER, text.length * 3)
    const length = BLOCK_BYTES + inner.write(text, BLOCK_BYTES)
    outer.write(hash('sha256', inner.subarray(0, length), 'binary'), BLOCK_BYTES, 'binary')
    target.write(hash('sha256', outer, 'binary'), at, bytes, 'binary')
  }
}

/** The key, padded and mixed with one half's constant, and room for what follows it. */
function begun (key: Buffer, constant: number, moreBytes: number): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES + moreBytes)
  key.copy(bytes)
  for (let at = 0; at < BLOCK_BYTES; at++) bytes[at] = (bytes[at] ?? 0) ^ constant
  return bytes
}
