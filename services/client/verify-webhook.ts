import { createHmac, createPublicKey, timingSafeEqual, verify } from 'node:crypto'
import type { BalanceEventBody, EventType } from '../../schemas/api/webhooks.ts'
import type { JobStatusResource } from './client.ts'

type EventOf<Type extends EventType, Data> = {
  readonly id: string
  readonly type: Type
  readonly api_version: string
  /** False for the job of a test key. */
  readonly livemode: boolean
  readonly timestamp: string
  readonly data: Data
}

/**
 * The event of a webhook. `data` is the job as GET /api/v1/jobs/{id} returns it; that of
 * `balance.low` is the threshold and the balance.
 */
export type WebhookEvent =
  | EventOf<Exclude<EventType, 'balance.low'>, JobStatusResource>
  | EventOf<'balance.low', BalanceEventBody['data']>

export type WebhookRequest = {
  /** As received; names in any case. */
  readonly headers: Readonly<Record<string, string | readonly string[] | undefined>>
  /** The body exactly as received, before any parsing. */
  readonly body: string | Uint8Array
  /** The whole `whsec_...` text, or several during a rotation. */
  readonly secret?: string | readonly string[]
  /**
   * In place of the secret: the `whpk_...` text of GET /api/v1/webhook-keys, or several. With
   * public keys alone, events can be verified and not forged.
   */
  readonly publicKey?: string | readonly string[]
  readonly toleranceSeconds?: number
  readonly nowMs?: number
}

export type VerifiedWebhook =
  | { readonly ok: true, readonly event: WebhookEvent }
  | {
    readonly ok: false
    readonly reason: 'missing_signature' | 'outside_tolerance' | 'wrong_signature' | 'invalid_body'
  }

/** A timestamp further away may belong to a replayed request. */
const TOLERANCE_SECONDS = 300

/**
 * Verifies that a webhook comes from the service and is recent: with a public key by the headers of
 * Standard Webhooks, with a secret by `X-Service-Signature`, or without it by those headers. An
 * event may arrive more than once: store the ids that you have processed.
 * @throws TypeError without secret and public key.
 */
export function verifyWebhook (request: WebhookRequest): VerifiedWebhook {
  const { secret, publicKey, toleranceSeconds = TOLERANCE_SECONDS, nowMs = Date.now() } = request
  const keys = [publicKey ?? secret ?? []].flat()
  if (keys.length === 0) throw new TypeError('verifyWebhook needs a secret or a public key')
  const signed = publicKey === undefined
    ? parseServiceSignature(request) ?? parseStandardSignature(request)
    : parsePublicSignature(request)
  if (signed === undefined) return { ok: false, reason: 'missing_signature' }
  const isGenuine = keys.some(key => {
    const matches = signed.matcher(key)
    return signed.signatures.map(matches).includes(true)
  })
  if (!isGenuine) return { ok: false, reason: 'wrong_signature' }
  const ageSeconds = Math.abs(nowMs / 1_000 - signed.timestamp)
  if (ageSeconds > toleranceSeconds) return { ok: false, reason: 'outside_tolerance' }
  try {
    return { ok: true, event: JSON.parse(Buffer.from(request.body).toString()) as WebhookEvent }
  } catch {
    return { ok: false, reason: 'invalid_body' }
  }
}

type Signed = {
  /** Unix seconds. */
  readonly timestamp: number
  readonly signatures: readonly string[]
  /** Whether a signature is that of a secret, or of the owner of a public key. */
  readonly matcher: (key: string) => (signature: string) => boolean
}

/** `t=<seconds>,v1=<hex>` with one or more `v1`, over `<t>.<body>`; the key is the secret text. */
function parseServiceSignature ({ headers, body }: WebhookRequest): Signed | undefined {
  const fields = findHeader(headers, 'x-service-signature')?.split(',').map(field => field.trim())
  const timestamp = fields?.find(field => field.startsWith('t='))?.slice(2)
  if (fields === undefined || timestamp === undefined || !isSeconds(timestamp)) return undefined
  return {
    timestamp: Number(timestamp),
    signatures: fields.filter(field => field.startsWith('v1=')).map(field => field.slice(3)),
    matcher: secret => isEqual(
      createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex')),
  }
}

/** `v1,<base64>` separated by spaces, over `<id>.<t>.<body>`; the key is the decoded secret. */
function parseStandardSignature (request: WebhookRequest): Signed | undefined {
  const standard = standardHeaders(request, 'v1')
  return standard && {
    ...standard,
    matcher: secret => isEqual(createHmac('sha256', decodeSecret(secret))
      .update(standard.before).update(request.body).digest('base64')),
  }
}

/** `v1a,<base64>`, the Ed25519 signature of the same; the key is the decoded public key. */
function parsePublicSignature (request: WebhookRequest): Signed | undefined {
  const standard = standardHeaders(request, 'v1a')
  if (standard === undefined) return undefined
  const content = Buffer.concat([Buffer.from(standard.before), Buffer.from(request.body)])
  return {
    ...standard,
    matcher: text => {
      const x = decodeSecret(text).toString('base64url')
      const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
      return signature => verify(null, content, key, Buffer.from(signature, 'base64'))
    },
  }
}

/** The bytes after the prefix of a secret or public key. */
const decodeSecret = (text: string) => Buffer.from(text.replace(/^wh(?:sec|pk)_/, ''), 'base64')

/** The time and signatures of a version, and what is signed before the body. */
function standardHeaders ({ headers }: WebhookRequest, version: 'v1' | 'v1a') {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature']
    .map(name => findHeader(headers, name))
  if (id === undefined || signatures === undefined || !isSeconds(timestamp)) return undefined
  return {
    timestamp: Number(timestamp),
    before: `${id}.${timestamp}.`,
    signatures: signatures.split(' ').filter(text => text.startsWith(`${version},`))
      .map(text => text.slice(version.length + 1)),
  }
}

/** Compares in constant time. */
const isEqual = (expected: string) => (actual: string): boolean => {
  const [a, b] = [Buffer.from(actual), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function findHeader (headers: WebhookRequest['headers'], name: string): string | undefined {
  const value = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return typeof value === 'string' || value === undefined ? value : value.join(',')
}

const isSeconds = (text: string | undefined) => text !== undefined && /^\d{1,12}$/.test(text)
