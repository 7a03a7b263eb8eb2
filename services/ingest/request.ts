import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import { MAX_INPUT_CHARACTERS, type CreateJobBody } from '../../schemas/api/create-job.ts'
import type { Mode } from '../accounts/tenant.ts'
import type { Checks } from '../jobs/checks.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import type { ApiError } from './errors.ts'
import { asciiUrlOf, webhookUrlError, type WebhookRules } from '../accounts/webhook-url.ts'

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
export type RequestRules = {
  readonly mode: Mode
  /** Of the services with a provider; test keys may use all. */
  readonly checks: Pick<Checks, 'has'>
  readonly webhooks: WebhookRules
}

export type ReadRequest =
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
