import { createHmac, createSecretKey, hkdfSync, type KeyObject } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { TOKEN_BYTES } from '../records/cache.ts'
import type { ServiceSlug } from '../topology.ts'

const TENANT_KEYS = 1_000

export type TokenScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  /** Which of the configured cache secrets makes the tokens; fixed when the job was submitted. */
  readonly version: string
}

/** Fills in the token of each canonical form; an empty one (an invalid row) keeps zeros. */
export type Tokenizer = (scope: TokenScope, canonicals: readonly string[]) => Buffer

/** The cache secrets of the configuration (32 bytes of base64 each), by their version. */
export function readSecrets (secrets: Readonly<Record<string, string>>):
ReadonlyMap<string, Buffer> {
  return new Map(Object.entries(secrets)
    .map(([version, text]) => [version, Buffer.from(text, 'base64')]))
}

/**
 * Tokens of contacts, 16 bytes a row in one Buffer: the first 16 bytes of HMAC-SHA256 over
 * `v1|<service>|<canonical>` under the tenant's own key, HKDF-SHA256 of the cache secret with the
 * tenant's name, so that tokens of two tenants cannot be compared. The derivation is written out
 * here and not shared, as any change to it would orphan every cached record.
 * Throws RangeError for a version that is not configured.
 */
export function createTokenizer (secrets: ReadonlyMap<string, Buffer>): Tokenizer {
  const keys = new LRUCache<string, KeyObject>({ max: TENANT_KEYS })
  const keyOf = ({ version, tenant }: TokenScope): KeyObject => {
    const name = `${version}|${tenant}`
    const known = keys.get(name)
    if (known !== undefined) return known
    const secret = secrets.get(version)
    if (secret === undefined) throw new RangeError(`No cache secret has the version ${version}.`)
    const key = createSecretKey(Buffer.from(hkdfSync('sha256', secret, '', `cache|${tenant}`, 32)))
    keys.set(name, key)
    return key
  }
  return (scope, canonicals) => {
    const key = keyOf(scope)
    const prefix = `v1|${scope.service}|`
    const tokens = Buffer.alloc(canonicals.length * TOKEN_BYTES)
    for (let row = 0; row < canonicals.length; row++) {
      const canonical = canonicals[row] ?? ''
      if (canonical === '') continue
      createHmac('sha256', key).update(prefix + canonical).digest()
        .copy(tokens, row * TOKEN_BYTES, 0, TOKEN_BYTES)
    }
    return tokens
  }
}
