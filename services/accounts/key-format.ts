import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Mode } from './tenant.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const RANDOM_CHARACTERS = 30
const CHECKSUM_CHARACTERS = 6
const LAYOUT = /^(vj_(live|test)_[0-9A-Za-z]{30})([0-9A-Za-z]{6})$/

/** A new secret of 178 random bits; `randomInt` draws without bias. */
export function newSecret (mode: Mode): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => BASE62[randomInt(BASE62.length)])
  const body = `vj_${mode}_${random.join('')}`
  return body + checksum(body)
}

/**
 * Whether a text can be a key at all: layout and checksum. Garbage is refused without asking the
 * store, and secret scanners know a real key from a look-alike.
 */
export function isWellFormed (secret: string): boolean {
  const match = LAYOUT.exec(secret)
  return match !== null && checksum(match[1] ?? '') === match[3]
}

/** What is stored of a key. A fast hash is enough, since a key can't be guessed. */
export function hashOf (secret: string): string {
  return createHash('sha256').update(secret).digest('hex')
}

function checksum (text: string): string {
  let rest = crc32(text)
  let digits = ''
  while (digits.length < CHECKSUM_CHARACTERS) {
    digits = `${BASE62[rest % BASE62.length]}${digits}`
    rest = Math.floor(rest / BASE62.length)
  }
  return digits
}
