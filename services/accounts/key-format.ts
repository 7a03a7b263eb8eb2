import { createHash, randomInt } from 'node:crypto'
import { crc32 } from 'node:zlib'
import type { Mode } from './tenant.ts'

const BASE62 = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz'
const RANDOM_CHARACTERS = 30
const CHECKSUM_CHARACTERS = 6
const LAYOUT = /^(vj_(live|test)_[0-9A-Za-z]{30})([0-9A-Za-z]{6})$/

/** Creates a secret of 178 random bits; `randomInt` is unbiased. */
export function newApiKey (mode: Mode): string {
  const random = Array.from({ length: RANDOM_CHARACTERS }, () => BASE62[randomInt(BASE62.length)])
  const body = `vj_${mode}_${random.join('')}`
  return body + checksum(body)
}

/**
 * Checks the layout and checksum of a key. Rejects garbage without a read of the store, and lets
 * secret scanners recognize keys.
 */
export function isWellFormed (secret: string): boolean {
  const match = LAYOUT.exec(secret)
  return match !== null && checksum(match[1] ?? '') === match[3]
}

/** The stored hash of a key. A fast hash is enough, as a key cannot be guessed. */
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
