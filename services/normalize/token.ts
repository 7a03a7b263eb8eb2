import { hkdfSync } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { RotatedTokens } from '../cache/rotated-tokens.ts'
import { recordsOf } from '../cache/cache.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { ServiceSlug } from '../topology.ts'
import { createTokenMac } from './mac.ts'

const TENANT_KEYS = 1_000

export type TokenScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  /** The version of the cache secret for the tokens; fixed when the job is submitted. */
  readonly version: string
}

/** The tokens of rows, and the version of their secret. */
export type RowTokens = {
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
