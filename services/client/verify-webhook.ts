import { createHmac, timingSafeEqual } from 'node:crypto'
import type { BalanceEventBody, EventType } from '../../schemas/api/event.ts'
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
  readonly secret: string | readonly string[]
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
 * Verifies that a webhook comes from the service and is recent: by `X-Service-Signature`, or
 * without it by the headers of Standard Webhooks. An event may arrive more than once: store the ids
 * that you have processed.
 */
export function verifyWebhook (request: WebhookRequest): VerifiedWebhook {
  const signed = parseServiceSignature(request) ?? parseStandardSignature(request)
  if (signed === undefined) return { ok: false, reason: 'missing_signature' }
  const { toleranceSeconds = TOLERANCE_SECONDS, nowMs = Date.now() } = request
  const isGenuine = [request.secret].flat().some(secret => {
    const expected = signed.expected(secret)
    return signed.signatures.map(one => isEqual(one, expected)).includes(true)
  })
  if (!isGenuine) return { ok: false, reason: 'wrong_signature' }
  const ageSeconds = Math.abs(nowMs / 1_000 - signed.timestamp)
  if (ageSeconds > toleranceSeconds) return { ok: false, reason: 'outside_tolerance' }
  try {
    return { ok: true, event: JSON.parse(textOf(request.body)) as WebhookEvent }
  } catch {
    return { ok: false, reason: 'invalid_body' }
  }
}

type Signed = {
  /** Unix seconds. */
  readonly timestamp: number
  readonly signatures: readonly string[]
  /** The correct signature for a secret. */
  readonly expected: (secret: string) => string
}

/** `t=<seconds>,v1=<hex>` with one or more `v1`, over `<t>.<body>`; the key is the secret text. */
function parseServiceSignature ({ headers, body }: WebhookRequest): Signed | undefined {
  const fields = headerOf(headers, 'x-service-signature')?.split(',').map(field => field.trim())
  const timestamp = fields?.find(field => field.startsWith('t='))?.slice(2)
  if (fields === undefined || timestamp === undefined || !isSeconds(timestamp)) return undefined
  return {
    timestamp: Number(timestamp),
    signatures: fields.filter(field => field.startsWith('v1=')).map(field => field.slice(3)),
    expected: secret =>
      createHmac('sha256', secret).update(`${timestamp}.`).update(body).digest('hex'),
  }
}

/** `v1,<base64>` separated by spaces, over `<id>.<t>.<body>`; the key is the decoded secret. */
function parseStandardSignature ({ headers, body }: WebhookRequest): Signed | undefined {
  const [id, timestamp, signatures] = ['webhook-id', 'webhook-timestamp', 'webhook-signature']
    .map(name => headerOf(headers, name))
  if (id === undefined || signatures === undefined || !isSeconds(timestamp)) return undefined
  return {
    timestamp: Number(timestamp),
    signatures: signatures.split(' ')
      .filter(one => one.startsWith('v1,')).map(one => one.slice(3)),
    expected: secret => createHmac('sha256', Buffer.from(secret.replace(/^whsec_/, ''), 'base64'))
      .update(`${id}.${timestamp}.`).update(body).digest('base64'),
  }
}

/** Compares in constant time. */
function isEqual (given: string, expected: string): boolean {
  const [a, b] = [Buffer.from(given), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}

function headerOf (headers: WebhookRequest['headers'], name: string): string | undefined {
  const found = Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1]
  return typeof found === 'string' || found === undefined ? found : found.join(',')
}

const isSeconds = (text: string | undefined) => text !== undefined && /^\d{1,12}$/.test(text)

const textOf = (body: string | Uint8Array) =>
  typeof body === 'string' ? body : Buffer.from(body).toString('utf8')
