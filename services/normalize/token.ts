import { hkdfSync } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { RotatedTokens } from '../cache/rotated-tokens.ts'
import { recordsOf } from '../cache/names.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { ServiceSlug } from '../topology.ts'
import { createMac } from './mac.ts'

const TENANT_KEYS = 1_000

export type TokenScope = {
  readonly tenant: string
  readonly service: ServiceSlug
  /** Which of the configured cache secrets makes the tokens; fixed when the job was submitted. */
  readonly version: string
}

/** Tokens of the rows, and the version they were made with. */
export type MadeTokens = {
  readonly version: string
  readonly tokens: Buffer
  readonly otherTokens: RotatedTokens | null
}

/** Fills in the tokens of each contact; an empty text (an invalid row) keeps zeros. */
export type Tokenizer = (scope: TokenScope, contacts: readonly string[]) => MadeTokens

/** The cache secrets of the configuration (32 bytes of base64 each), by their version. */
export function readSecrets (secrets: Readonly<Record<string, string>>):
ReadonlyMap<string, Buffer> {
  return new Map(Object.entries(secrets)
    .map(([version, text]) => [version, Buffer.from(text, 'base64')]))
}

/**
 * Tokens of contacts, 16 bytes a row in one Buffer: the first 16 bytes of HMAC-SHA256 over
 * `v1|<service>|<contact>`, with the service by whose name the records are kept, under the tenant's
 * own key, HKDF-SHA256 of the cache secret with the tenant's name, so that tokens of two tenants
 * cannot be compared. The derivation is written out here and not shared, as any change to it would
 * orphan every cached record.
 *
 * They are made with every secret that is configured. A version that is not, because it was taken
 * out or is not known here yet, only costs what the cache would have known: the newest one that is
 * takes its place. Throws RangeError when there are no secrets at all.
 */
export function createTokenizer (secrets: ReadonlyMap<string, Buffer>): Tokenizer {
  const newestFirst = [...secrets.keys()].reverse()
  const [newest] = newestFirst
  if (newest === undefined) throw new RangeError('There are no cache secrets.')
  const keyOf = createKeys(secrets)
  return (scope, contacts) => {
    const version = secrets.has(scope.version) ? scope.version : newest
    const make = (of: string) => tokensBy(keyOf(of, scope.tenant), scope.service, contacts)
    const versions = newestFirst.filter((other) => other !== version)
    const otherTokens = versions.length === 0
      ? null
      : { versions, tokens: Buffer.concat(versions.map(make)) }
    return { version, tokens: make(version), otherTokens }
  }
}

type Keyed = ReturnType<typeof createMac>

/** The tenants' keys by version of the secret. */
function createKeys (secrets: ReadonlyMap<string, Buffer>) {
  const keys = new LRUCache<string, Keyed>({ max: TENANT_KEYS })
  return (version: string, tenant: string): Keyed => {
    const name = `${version}|${tenant}`
    const known = keys.get(name)
    if (known !== undefined) return known
    const secret = secrets.get(version) ?? Buffer.alloc(0)
    const key = Buffer.from(hkdfSync('sha256', secret, '', `cache|${tenant}`, 32))
    const mac = createMac(key, TOKEN_BYTES)
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
