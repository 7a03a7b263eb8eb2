import { createPrivateKey, createPublicKey, type KeyObject, randomBytes, sign } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import {
  accountKey, createAccountRecords, organizationRecord, type Wrapped, wrappedFields,
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
  /**
   * Of its hash; `<field>Before` and `<field>BeforeUntil` are those of the previous secret, and
   * `<field>Earlier` are the secrets before it that still sign, as JSON.
   */
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
export const ROTATION_MS = 86_400_000
/** Former secrets that sign beside the current one: each makes the headers of an event longer. */
const MAX_FORMER = 10

/** A secret that was replaced, and until when it signs too. */
export type FormerSecret = { readonly secret: string, readonly untilMs: number }

/** The former secrets that still sign, newest first. */
export const stillActive = (
  former: readonly FormerSecret[], nowMs: number
): readonly FormerSecret[] =>
  former.filter(({ untilMs }) => untilMs > nowMs).slice(0, MAX_FORMER)

/** A record as it is stored: texts that the key of the organization wraps, '' for none. */
type StoredSecrets = {
  readonly revision: number
  readonly current: string
  readonly before: string
  readonly beforeUntilMs: number
  readonly earlier: string
}

/** The secrets of one kind, wrapped by the key of the organization, in its hash. */
function createStoredSecrets ({ redis, keys, now = Date.now }: Options, kind: Kind) {
  const { field, prefix } = kind
  const records = createAccountRecords(redis)
  const formatSecret = (secret: Buffer) => `${prefix}${secret.toString('base64')}`
  const buildAad = (orgId: string) => [kind.binding, orgId]
  const buildEarlierAad = (orgId: string) => [earlierBinding(kind), orgId]
  const wrap = async (orgId: string, bytes: Buffer, aad: readonly string[]) =>
    (await keys.wrap(orgId, bytes, aad)).toString('base64')
  return {
    open: async (orgId: string, wrapped: string): Promise<string> =>
      formatSecret(await keys.unwrap(orgId, Buffer.from(wrapped, 'base64'), buildAad(orgId))),

    openEarlier: async (orgId: string, wrapped: string): Promise<readonly FormerSecret[]> => {
      if (wrapped === '') return []
      const text = await keys.unwrap(orgId, Buffer.from(wrapped, 'base64'), buildEarlierAad(orgId))
      return JSON.parse(text.toString()) as readonly FormerSecret[]
    },

    read: async (orgId: string): Promise<StoredSecrets> => {
      const { revision = 0, fields = {} } = await records.read(organizationRecord(orgId)) ?? {}
      return {
        revision,
        current: fields[field] ?? '',
        before: fields[`${field}Before`] ?? '',
        beforeUntilMs: Number(fields[`${field}BeforeUntil`] ?? 0),
        earlier: fields[`${field}Earlier`] ?? '',
      }
    },

    /** Writes a new secret; undefined if another process changed the record since it was read. */
    write: async (
      orgId: string, { revision, previous, earlier }: {
        readonly revision: number,
        readonly previous: string,
        readonly earlier: readonly FormerSecret[],
      }
    ): Promise<string | undefined> => {
      const secret = randomBytes(SECRET_BYTES)
      const fields = {
        [field]: await wrap(orgId, secret, buildAad(orgId)),
        [`${field}Before`]: previous,
        [`${field}BeforeUntil`]: String(previous === '' ? 0 : now() + ROTATION_MS),
        [`${field}Earlier`]: earlier.length === 0
          ? ''
          : await wrap(orgId, Buffer.from(JSON.stringify(earlier)), buildEarlierAad(orgId)),
      }
      const name = organizationRecord(orgId)
      const isWritten = await records.change({ name, from: revision, fields })
      return isWritten ? formatSecret(secret) : undefined
    },
  }
}

/** The secrets that sign webhooks. */
export function createWebhookSecrets (options: Options, kind = SECRET) {
  const { redis, now = Date.now } = options
  const { field } = kind
  const { open, openEarlier, read, write } = createStoredSecrets(options, kind)

  /** The secrets to sign with, current one first; empty if there is none yet. */
  async function active (orgId: string): Promise<string[]> {
    const key = accountKey(organizationRecord(orgId))
    const [current, before, until, earlier] = await redis.hmget(key,
      field, `${field}Before`, `${field}BeforeUntil`, `${field}Earlier`)
    const wrapped = [current, Number(until ?? 0) > now() ? before : undefined]
    const newest = await Promise.all(wrapped.flatMap(text => text ? [open(orgId, text)] : []))
    const others = stillActive(await openEarlier(orgId, earlier ?? ''), now())
    return [...newest, ...others.map(({ secret }) => secret)].slice(0, 1 + MAX_FORMER)
  }

  /** The secrets before the current one that still sign, without those that are damaged. */
  async function formerSecrets (
    orgId: string, { before, beforeUntilMs: untilMs, earlier }: StoredSecrets
  ): Promise<readonly FormerSecret[]> {
    const isOver = before === '' || untilMs <= now()
    const secret = isOver ? undefined : await unlessDamaged(() => open(orgId, before))
    const others = await unlessDamaged(() => openEarlier(orgId, earlier)) ?? []
    return stillActive([...secret === undefined ? [] : [{ secret, untilMs }], ...others], now())
  }

  return {
    active,

    /** The current secret; creates the first one if there is none yet. */
    async show (orgId: string): Promise<string> {
      for (;;) {
        const { revision, current } = await read(orgId)
        if (current !== '') return await open(orgId, current)
        const secret = await write(orgId, { revision, previous: '', earlier: [] })
        if (secret !== undefined) return secret
      }
    },

    /**
     * Creates a new secret and returns it. Each one before it stays active until a day after it
     * was replaced, unless it is damaged: it cannot sign, and would block every webhook until then.
     * @throws FatalError when the key of the previous one is missing.
     */
    async rotate (orgId: string): Promise<string> {
      for (;;) {
        const stored = await read(orgId)
        const { revision, current } = stored
        const isSound = current !== '' &&
          await unlessDamaged(() => open(orgId, current)) !== undefined
        const earlier = await formerSecrets(orgId, stored)
        const secret = await write(orgId, { revision, previous: isSound ? current : '', earlier })
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
  return active.length > 0 ? active : [await secrets.show(orgId)]
}

/** The bytes of a secret or signing key, of which the text is `<prefix>_<base64>`. */
export const secretBytes = (text: string): Buffer =>
  Buffer.from(text.slice(text.indexOf('_') + 1), 'base64')

/** The public key of a signing key, as Standard Webhooks writes it: `whpk_` and base64. */
export function publicKeyText (signingKey: string): string {
  const { x = '' } = createPublicKey(toPrivateKey(signingKey)).export({ format: 'jwk' })
  return `whpk_${Buffer.from(x, 'base64url').toString('base64')}`
}

/** The Ed25519 signature of a text by a signing key, 64 bytes. */
export const signText = (signingKey: string, text: string): Buffer =>
  sign(null, Buffer.from(text), toPrivateKey(signingKey))

/** RFC 8410: what precedes the 32 bytes of a private key in its DER form (PKCS #8). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b657004220420', 'hex')

/** By signing key; creating one takes longer than a signature. */
const privateKeys = new LRUCache<string, KeyObject>({ max: 1_000 })

/** Any 32 bytes are a private key (RFC 8032, 5.1.5). */
function toPrivateKey (signingKey: string): KeyObject {
  const key = privateKeys.get(signingKey) ?? createPrivateKey({
    key: Buffer.concat([PKCS8_PREFIX, secretBytes(signingKey)]), format: 'der', type: 'pkcs8',
  })
  privateKeys.set(signingKey, key)
  return key
}

/**
 * Undefined for damaged bytes. Rethrows if a key is missing: they are readable again once the key
 * is restored.
 */
async function unlessDamaged<T> (open: () => Promise<T>): Promise<T | undefined> {
  try {
    return await open()
  } catch (error) {
    if (error instanceof SealError) return undefined
    throw error
  }
}

const earlierBinding = ({ binding }: Kind) => `${binding}-earlier`

/** The wrapped secrets and signing keys of an organization. */
export async function wrappedSecrets (
  redis: RedisClient, orgId: string
): Promise<readonly Wrapped[]> {
  const fields = KINDS.flatMap(kind => [
    { field: kind.field, name: kind.binding },
    { field: `${kind.field}Before`, name: kind.binding },
    { field: `${kind.field}Earlier`, name: earlierBinding(kind) },
  ].map(({ field, name }) => ({ field, binding: [name, orgId], class: 'webhooks' as const })))
  return await wrappedFields(
    createAccountRecords(redis), organizationRecord(orgId), fields)
}
