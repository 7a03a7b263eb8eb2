import { createPrivateKey, createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import {
  type Wrapped, accountKey, createAccountRecords, wrappedFields,
} from '../accounts/records.ts'
import { SealError } from '../runtime/crypto/seal.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

type Options = {
  readonly redis: RedisClient
  readonly keys: OrganizationKeys
  readonly now?: () => number
}

/** A kind of secret of an organization. */
type Kind = {
  /** Of its hash; `<field>Before` and `<field>BeforeUntil` are those of the previous secret. */
  readonly field: string
  readonly binding: string
  readonly prefix: string
}

/** The shared secret of HMAC signatures. */
const SECRET: Kind = { field: 'webhookSecret', binding: 'webhook-secret', prefix: 'whsec_' }
/** The private key of Ed25519 signatures, of which receivers only need the public key. */
const SIGNING_KEY: Kind =
  { field: 'webhookSigningKey', binding: 'webhook-signing-key', prefix: 'whsk_' }
const KINDS = [SECRET, SIGNING_KEY]

export type WebhookSecrets = ReturnType<typeof createWebhookSecrets>

const SECRET_BYTES = 32
/** Receivers have a day to adopt a new secret; until then deliveries carry both signatures. */
const ROTATION_MS = 86_400_000

const keyOf = (orgId: string) => `org:${orgId}`

/** The secrets that sign webhooks, wrapped by the key of the organization, in its hash. */
export function createWebhookSecrets ({ redis, keys, now = Date.now }: Options, kind = SECRET) {
  const { field, prefix } = kind
  const records = createAccountRecords(redis)
  const textOf = (secret: Buffer) => `${prefix}${secret.toString('base64')}`
  const aadOf = (orgId: string) => [kind.binding, orgId]
  async function open (orgId: string, sealed: string): Promise<string> {
    return textOf(await keys.unwrap(orgId, Buffer.from(sealed, 'base64'), aadOf(orgId)))
  }

  /** Writes a new secret; undefined if another process changed the record since it was read. */
  async function write (
    orgId: string, { revision, previous }: { readonly revision: number, readonly previous: string }
  ): Promise<string | undefined> {
    const secret = randomBytes(SECRET_BYTES)
    const fields = {
      [field]: (await keys.wrap(orgId, secret, aadOf(orgId))).toString('base64'),
      [`${field}Before`]: previous,
      [`${field}BeforeUntil`]: String(previous === '' ? 0 : now() + ROTATION_MS),
    }
    const isWritten = await records.change({ name: keyOf(orgId), from: revision, fields })
    return isWritten ? textOf(secret) : undefined
  }

  /** The current secret as stored, '' for none, with the revision of its record. */
  async function read (orgId: string) {
    const { revision = 0, fields = {} } = await records.read(keyOf(orgId)) ?? {}
    return { revision, stored: fields[field] ?? '' }
  }

  /** The secrets to sign with, current one first; empty if there is none yet. */
  async function active (orgId: string): Promise<string[]> {
    const [current, before, until] = await redis.hmget(
      accountKey(keyOf(orgId)), field, `${field}Before`, `${field}BeforeUntil`)
    const sealed = [current, Number(until ?? 0) > now() ? before : undefined]
    return await Promise.all(sealed.flatMap(text => text ? [open(orgId, text)] : []))
  }

  return {
    active,

    /** The current secret; creates the first one if there is none yet. */
    async show (orgId: string): Promise<string> {
      for (;;) {
        const { revision, stored } = await read(orgId)
        if (stored !== '') return await open(orgId, stored)
        const secret = await write(orgId, { revision, previous: '' })
        if (secret !== undefined) return secret
      }
    },

    /**
     * Creates a new secret and returns it. The previous one stays active for a day, unless it is
     * damaged: it cannot sign, and would block every webhook for that day.
     * @throws FatalError when the key of the previous one is missing.
     */
    async rotate (orgId: string): Promise<string> {
      for (;;) {
        const { revision, stored } = await read(orgId)
        const isLost = stored !== '' && await isDamaged(() => open(orgId, stored))
        const secret = await write(orgId, { revision, previous: isLost ? '' : stored })
        if (secret !== undefined) return secret
      }
    },
  }
}

/** The private keys that sign webhooks (Ed25519), kept and rotated like their secrets. */
export const createWebhookSigningKeys = (options: Options): WebhookSecrets =>
  createWebhookSecrets(options, SIGNING_KEY)

/** The active secrets; creates the first one of an organization that has none yet. */
export async function activeOrFirst (
  secrets: Pick<WebhookSecrets, 'active' | 'show'>, orgId: string
): Promise<readonly string[]> {
  const active = await secrets.active(orgId)
  if (active.length > 0) return active
  await secrets.show(orgId)
  return await secrets.active(orgId)
}

/** The bytes of a secret or signing key, of which the text is `<prefix>_<base64>`. */
export const secretBytes = (text: string): Buffer =>
  Buffer.from(text.slice(text.indexOf('_') + 1), 'base64')

/** The public key of a signing key, as Standard Webhooks writes it: `whpk_` and base64. */
export function publicKeyText (signingKey: string): string {
  const { x = '' } = createPublicKey(privateKeyOf(signingKey)).export({ format: 'jwk' })
  return `whpk_${Buffer.from(x, 'base64url').toString('base64')}`
}

/** The Ed25519 signature of a text by a signing key, 64 bytes. */
export const signText = (signingKey: string, text: string): Buffer =>
  sign(null, Buffer.from(text), privateKeyOf(signingKey))

/** RFC 8410: what precedes the 32 bytes of a private key in its DER form (PKCS #8). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** By signing key; creating one takes longer than a signature. */
const privateKeys = new LRUCache<string, KeyObject>({ max: 1_000 })

/** Any 32 bytes are a private key (RFC 8032, 5.1.5). */
function privateKeyOf (signingKey: string): KeyObject {
  const key = privateKeys.get(signingKey) ?? createPrivateKey({
    key: Buffer.concat([PKCS8_PREFIX, secretBytes(signingKey)]), format: 'der', type: 'pkcs8',
  })
  privateKeys.set(signingKey, key)
  return key
}

/** Rethrows if a key is missing: the secret is readable again once the key is restored. */
async function isDamaged (open: () => Promise<string>): Promise<boolean> {
  try {
    await open()
    return false
  } catch (error) {
    if (error instanceof SealError) return true
    throw error
  }
}

/** The wrapped secrets and signing keys of an organization. */
export async function wrappedSecrets (
  redis: RedisClient, orgId: string
): Promise<readonly Wrapped[]> {
  return await wrappedFields(createAccountRecords(redis), `org:${orgId}`, KINDS.flatMap(kind =>
    [kind.field, `${kind.field}Before`].map(field =>
      ({ field, binding: [kind.binding, orgId], class: 'webhooks' as const }))))
}
