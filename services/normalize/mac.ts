import { hash } from 'node:crypto'

/** Bytes that SHA-256 works on at once, and those of its digest. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** What the two halves of an HMAC are begun with (RFC 2104). */
const INNER = 0x36
const OUTER = 0x5c

/** Writes the first bytes of the HMAC of a prefix and a text into `target` from `at` on. */
export type Mac = (text: string, target: Buffer, at: number) => void

/** Longer texts are copied once more. */
const SHORT = 64
const LAST_ASCII = 0x7f

/**
 * HMAC-SHA256 (RFC 2104) of short texts in UTF-8 under one key of at most 64 bytes, cut to so many
 * bytes; all texts of one call begin with its prefix. It is put together from two digests: the
 * runtime's own HMAC makes objects for every text that cost three times as much as the digests.
 */
export function createMac (key: Buffer, bytes: number): (prefix: string) => Mac {
  if (key.length > BLOCK_BYTES) throw new RangeError(`a key has at most ${BLOCK_BYTES} bytes`)
  const outer = begun(key, OUTER, DIGEST_BYTES)
  return (prefix) => {
    const messageOf = createMessages(key, prefix)
    return (text, target, at) => {
      outer.write(hash('sha256', messageOf(text), 'binary'), BLOCK_BYTES, 'latin1')
      target.write(hash('sha256', outer, 'binary'), at, bytes, 'latin1')
    }
  }
}

/** What the inner digest is made of: the key, the prefix and a text, valid until the next call. */
function createMessages (key: Buffer, prefix: string): (text: string) => Buffer {
  const room = Buffer.byteLength(prefix)
  const inner = begun(key, INNER, room + SHORT)
  const start = BLOCK_BYTES + inner.write(prefix, BLOCK_BYTES)
  // One a length, made when a text of that length comes: few lengths are among those of a chunk.
  const views: Buffer[] = []
  return (text) => {
    const isPlain = text.length <= SHORT && writeAscii(text, inner, start)
    if (!isPlain) return Buffer.concat([inner.subarray(0, start), Buffer.from(text)])
    const view = views[text.length] ?? inner.subarray(0, start + text.length)
    views[text.length] = view
    return view
  }
}

/** False, and part of the text written, if another sign is in it. */
function writeAscii (text: string, target: Buffer, start: number): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit > LAST_ASCII) return false
    target[start + at] = unit
  }
  return true
}

/** The key, padded and mixed with one half's constant, and room for what follows it. */
function begun (key: Buffer, constant: number, moreBytes: number): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES + moreBytes)
  key.copy(bytes)
  for (let at = 0; at < BLOCK_BYTES; at++) bytes[at] = (bytes[at] ?? 0) ^ constant
  return bytes
}
