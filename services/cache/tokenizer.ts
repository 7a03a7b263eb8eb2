import { hkdfSync, hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { ServiceSlug } from '../topology.ts'
import { recordsOf } from './cache.ts'
import { type RotatedTokens, TOKEN_BYTES } from './tokens.ts'

const TENANT_KEYS = 1_000

type TokenScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  /** The version of the cache secret for the tokens; fixed when the job is submitted. */
  readonly version: string
}

/** The tokens of rows, and the version of their secret. */
type RowTokens = {
  readonly version: string
  readonly tokens: Buffer
  readonly rotatedTokens: RotatedTokens | null
}

/** Computes the tokens of contacts; an empty text (an invalid row) has a token of zeros. */
export type Tokenizer = (scope: TokenScope, contacts: readonly string[]) => RowTokens

/** The configured cache secrets (32 bytes of base64 each), by version. */
export function readSecrets (secrets: Readonly<Record<string, string>>):
ReadonlyMap<string, Buffer> {
  return new Map(Object.entries(secrets)
    .map(([version, text]) => [version, Buffer.from(text, 'base64')]))
}

/**
 * Tokens of contacts, 16 bytes per row in one Buffer: the first 16 bytes of HMAC-SHA256 over
 * `v1|<service>|<contact>` with the key of the tenant, which is HKDF-SHA256 of the cache secret and
 * the tenant, so that tokens of two tenants cannot be compared. The service is the one by whose
 * name records are stored. The derivation is written out here and not shared, because any change to
 * it would orphan every cached record.
 *
 * Tokens are computed with all configured secrets. If the requested version is missing, because it
 * was removed or is not deployed here yet, the newest one is used: that only loses cache hits.
 * @throws RangeError without any secret.
 */
export function createTokenizer (secrets: ReadonlyMap<string, Buffer>): Tokenizer {
  const newestFirst = [...secrets.keys()].reverse()
  const [newest] = newestFirst
  if (newest === undefined) {
    throw new RangeError('CACHE_SECRETS is empty: configure at least one secret')
  }
  const keyOf = createKeys(secrets)
  return (scope, contacts) => {
    const version = secrets.has(scope.version) ? scope.version : newest
    const make = (of: string) => tokensBy(keyOf(of, scope.tenant), scope.service, contacts)
    const versions = newestFirst.filter((other) => other !== version)
    const rotatedTokens = versions.length === 0
      ? null
      : { versions, tokens: Buffer.concat(versions.map(make)) }
    return { version, tokens: make(version), rotatedTokens }
  }
}

type Keyed = ReturnType<typeof createTokenMac>

/** The keys of tenants by version of the secret. */
function createKeys (secrets: ReadonlyMap<string, Buffer>) {
  const keys = new LRUCache<string, Keyed>({ max: TENANT_KEYS })
  return (version: string, tenant: string): Keyed => {
    const name = `${version}|${tenant}`
    const known = keys.get(name)
    if (known !== undefined) return known
    const secret = secrets.get(version) ?? Buffer.alloc(0)
    const key = Buffer.from(hkdfSync('sha256', secret, '', `cache|${tenant}`, 32))
    const mac = createTokenMac(key, TOKEN_BYTES)
    keys.set(name, mac)
    return mac
  }
}

function tokensBy (keyed: Keyed, service: ServiceSlug, contacts: readonly string[]): Buffer {
  const mac = keyed(`v1|${recordsOf(service)}|`)
  const tokens = Buffer.alloc(contacts.length * TOKEN_BYTES)
  for (let row = 0; row < contacts.length; row++) {
    const contact = contacts[row] ?? ''
    if (contact === '') continue
    mac(contact, tokens, row * TOKEN_BYTES)
  }
  return tokens
}

/** The block size of SHA-256, and the size of its digest. */
const BLOCK_BYTES = 64
const DIGEST_BYTES = 32
/** The constants of the two halves of an HMAC (RFC 2104). */
const INNER = 0x36
const OUTER = 0x5c

/** Writes the first bytes of the HMAC of a prefix and a text into `target` at offset `at`. */
type TokenMac = (text: string, target: Buffer, at: number) => void

/** Longer texts need one more copy. */
const MAX_SHORT_TEXT = 64
const LAST_ASCII = 0x7f

/**
 * HMAC-SHA256 (RFC 2104) of short UTF-8 texts with a key of at most 64 bytes, truncated to `bytes`;
 * all texts of one call have its prefix. Computes two digests directly: the HMAC of Node creates
 * objects for every text, which cost three times as much as the digests.
 */
export function createTokenMac (key: Buffer, bytes: number): (prefix: string) => TokenMac {
  if (key.length > BLOCK_BYTES) {
    throw new RangeError(`the key has ${key.length} bytes, at most ${BLOCK_BYTES} are allowed`)
  }
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
