import { hash } from 'node:crypto'

/** The block size of SHA-256, and the size of its digest. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** The constants of the two halves of an HMAC (RFC 2104). */
const INNER = 0x36
const OUTER = 0x5c

/** Writes the MAC of a prefix and a text into `target` at offset `at`. */
export type ShortMac = (prefix: string) => (text: string, target: Buffer, at: number) => void

/** Longer texts need one more copy. */
const MAX_SHORT_TEXT = 64
const LAST_ASCII = 0x7f

/**
 * HMAC-SHA256 (RFC 2104) of short UTF-8 texts with a key of at most 64 bytes, truncated to this
 * many bytes; all texts of one call have its prefix. Computes two digests directly: the HMAC of
 * Node creates objects for every text, which cost three times as much as the digests.
 */
export function createShortMac (key: Buffer, bytes: number): ShortMac {
  const outer = paddedKey(key, OUTER, DIGEST_BYTES)
  return (prefix) => {
    const messageOf = createMessageBuffer(key, prefix)
    return (text, target, at) => {
      outer.write(hash('sha256', messageOf(text), 'binary'), BLOCK_BYTES, 'latin1')
      target.write(hash('sha256', outer, 'binary'), at, bytes, 'latin1')
    }
  }
}

/** The input of the inner digest: key, prefix and text, valid until the next call. */
function createMessageBuffer (key: Buffer, prefix: string): (text: string) => Buffer {
  const prefixBytes = Buffer.byteLength(prefix)
  const inner = paddedKey(key, INNER, prefixBytes + MAX_SHORT_TEXT)
  const start = BLOCK_BYTES + inner.write(prefix, BLOCK_BYTES)
  // One view per text length, created on demand: the texts of a chunk have few lengths.
  const views: Buffer[] = []
  return (text) => {
    const isPlain = text.length <= MAX_SHORT_TEXT && writeAscii(text, inner, start)
    if (!isPlain) return Buffer.concat([inner.subarray(0, start), Buffer.from(text)])
    const view = views[text.length] ?? inner.subarray(0, start + text.length)
    views[text.length] = view
    return view
  }
}

/** False, with a part of the text written, if the text is not ASCII. */
function writeAscii (text: string, target: Buffer, start: number): boolean {
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at)
    if (unit > LAST_ASCII) return false
    target[start + at] = unit
  }
  return true
}

/** The padded key, combined with the constant, with space for `moreBytes` after it. */
function paddedKey (key: Buffer, constant: number, moreBytes: number): Buffer {
  const bytes = Buffer.alloc(BLOCK_BYTES + moreBytes)
  key.copy(bytes)
  for (let at = 0; at < BLOCK_BYTES; at++) bytes[at] = (bytes[at] ?? 0) ^ constant
  return bytes
}
