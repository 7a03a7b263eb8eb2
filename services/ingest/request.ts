import { createHmac, type KeyObject } from 'node:crypto'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { type CreateJobBody, MAX_INPUT_CHARACTERS } from '../../schemas/api/create-job.ts'
import type { Mode } from '../accounts/tenant.ts'
import { type MessageKeySettings, subkeysOf } from '../runtime/crypto/mac.ts'
import type { Checks } from '../jobs/checks.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import type { ApiError } from './errors.ts'
import { asciiUrlOf, type WebhookRules, webhookUrlError } from '../webhooks/url.ts'
import { type Prices, unitPriceMicros } from '../money/prices.ts'
import { type ContactKind, SERVICES } from '../jobs/results/columns.ts'

/** A request for a job with all defaults; '' for omitted texts. */
export type JobRequest = {
  readonly service: ServiceSlug
  readonly inputs: readonly string[]
  readonly country: string
  readonly forceFresh: boolean
  readonly metadata: Readonly<Record<string, string>>
  readonly webhookUrl: string
}

/** The permissions of an installation and a key. */
type RequestRules = {
  readonly mode: Mode
  /** Of the services with a provider; test keys may use all. */
  readonly checks: Pick<Checks, 'has'>
  readonly webhooks: WebhookRules
}

type ReadRequest =
  | { readonly kind: 'request', readonly request: JobRequest }
  | { readonly kind: 'fault', readonly fault: ApiError }

const COUNTRIES: ReadonlySet<string> = new Set(COUNTRY_CODES)
const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** Reads a body that matches its schema, and checks what no schema can express. */
export function readJobRequest (body: CreateJobBody, rules: RequestRules): ReadRequest {
  const country = body.countryCode?.toUpperCase() ?? ''
  const fault = serviceFault(body.service, rules) ??
    countryFault(body.countryCode, country) ??
    webhookFault(body.webhook_url, rules.webhooks, 'webhook_url')
  if (fault !== undefined) return { kind: 'fault', fault }
  const request = {
    service: body.service as ServiceSlug,
    inputs: body.inputs.some(isCut) ? body.inputs.map(cut) : body.inputs,
    country,
    forceFresh: body.forceFresh ?? false,
    metadata: body.metadata ?? {},
    webhookUrl: asciiUrlOf(body.webhook_url ?? ''),
  }
  return { kind: 'request', request }
}

const isCut = (input: string): boolean => input.length > MAX_INPUT_CHARACTERS

/**
 * Truncates an input to a size that still shows that it is too long, unless it is only white space.
 */
function cut (input: string): string {
  if (!isCut(input)) return input
  return input.trim().slice(0, MAX_INPUT_CHARACTERS).toWellFormed()
}

/** The key in lower case, '' without the header, undefined if it is not a UUID v4. */
export function readIdempotencyKey (
  header: string | readonly string[] | undefined
): string | undefined {
  if (header === undefined) return ''
  const key = typeof header === 'string' ? header.toLowerCase() : ''
  return UUID_V4.test(key) ? key : undefined
}

function serviceFault (slug: string, rules: RequestRules): ApiError | undefined {
  if (!(SERVICE_SLUGS as readonly string[]).includes(slug)) {
    return {
      code: 'unknown_service',
      param: 'service',
      message: `There is no such service. Use one of: ${SERVICE_SLUGS.join(', ')}.`,
      more: { services: SERVICE_SLUGS },
    }
  }
  if (rules.mode === 'test' || rules.checks.has(slug as ServiceSlug)) return undefined
  return { code: 'service_not_configured', param: 'service' }
}

function countryFault (submitted: string | undefined, country: string): ApiError | undefined {
  if (submitted === undefined || COUNTRIES.has(country)) return undefined
  return { code: 'invalid_country_code', param: 'countryCode' }
}

/** The error for an address in the field `param` that cannot receive events. */
export function webhookFault (
  url: string | undefined, rules: WebhookRules, param: 'webhook_url' | 'url'
): ApiError | undefined {
  const why = url === undefined ? undefined : webhookUrlError(url, rules)
  if (why === undefined) return undefined
  return {
    code: 'invalid_webhook_url',
    param,
    message: `${param} is not an acceptable address. ${why} Send a public https:// address.`,
  }
}

/**
 * Identifies a request for its Idempotency-Key: 16 bytes of HMAC-SHA256, in hex, over the request
 * as canonical JSON with defaults. The order of fields and labels does not matter, the order of
 * inputs does. An HMAC, because a plain digest would allow guessing contacts.
 */
export function fingerprintOf (request: JobRequest, key: KeyObject): string {
  const metadata = Object.entries(request.metadata).sort(([a], [b]) => (a < b ? -1 : 1))
  const options = [
    'v1', request.service, request.country, request.forceFresh, request.webhookUrl, metadata,
  ]
  const hmac = createHmac('sha256', key).update(JSON.stringify(options))
  for (const text of jsonOf(request.inputs)) hmac.update(text)
  return hmac.digest('hex').slice(0, 32)
}

/** The list as JSON in pieces: the text of a whole body would need its size in memory again. */
function * jsonOf (inputs: readonly string[]): Iterable<string> {
  yield '['
  for (let from = 0; from < inputs.length; from += PIECE_ROWS) {
    if (from > 0) yield ','
    yield JSON.stringify(inputs.slice(from, from + PIECE_ROWS)).slice(1, -1)
  }
  yield ']'
}

const PIECE_ROWS = 1_000

/** The key of fingerprints: the same after a rotation, so that a retry stays the same request. */
export const fingerprintKeyOf = (messageKeys: MessageKeySettings['MESSAGE_KEYS']): KeyObject =>
  subkeysOf(messageKeys, 'fingerprint')[0]

const REFUSED = 'the job or the quote is refused: 402 `insufficient_balance`'

/**
 * Inputs that simulate `insufficient_balance` for a job or quote of a test key, whose price is 0:
 * this number in any format, and this local part at any domain, before any `+tag`.
 */
export const SANDBOX_REFUSALS = {
  phone: { input: '+15005550402', means: REFUSED },
  email: { input: 'insufficient_balance@', means: REFUSED },
} as const satisfies Readonly<Record<ContactKind, object>>

/** Longer than any format of the number, so that long texts are skipped. */
const MAX_PHONE_CHARACTERS = 32

type RequestedJob = { readonly service: ServiceSlug, readonly inputs: readonly string[] }

/**
 * The error of a job of a test key with a sandbox input, like that of an empty wallet at live
 * prices. Live keys have no sandbox inputs.
 */
export function sandboxRefusal (
  { service, inputs }: RequestedJob,
  { mode, prices }: { readonly mode: Mode, readonly prices: Prices }
): ApiError | undefined {
  if (mode !== 'test') return undefined
  const isMagic = SERVICES[service].kind === 'phone' ? isSandboxPhone : isSandboxEmail
  if (!inputs.some(isMagic)) return undefined
  const requiredMicros = unitPriceMicros(prices, service, 'live') * inputs.length
  return { code: 'insufficient_balance', more: { requiredMicros, availableMicros: 0 } }
}

function isSandboxPhone (input: string): boolean {
  return input.length <= MAX_PHONE_CHARACTERS &&
    `+${input.replace(/\D/g, '')}` === SANDBOX_REFUSALS.phone.input
}

function isSandboxEmail (input: string): boolean {
  return /^\s*insufficient_balance(\+[^@]*)?@[^@]+$/i.test(input)
}
