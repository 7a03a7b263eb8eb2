import { createHmac, type Hmac, type KeyObject } from 'node:crypto'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import { COUNTRY_CODES } from '../../schemas/api/country.ts'
import {
  type CreateJobBody, type JobInput, MAX_INPUT_CHARACTERS,
} from '../../schemas/api/create-job.ts'
import type { Mode } from '../accounts/tenant.ts'
import { type ContactKind, SERVICE_DEFINITIONS } from '../jobs/results/columns.ts'
import {
  offeredOptions, optionDate, type OptionName, optionName, optionsPriceMicros,
} from '../jobs/options.ts'
import type { Submission } from '../jobs/submit.ts'
import { unitPriceMicros } from '../money/prices.ts'
import { SERVICE_SLUGS, type ServiceSlug } from '../topology.ts'
import { asciiUrlOf, type WebhookRules, webhookUrlError } from '../webhooks/url.ts'
import type { Settings } from './config.ts'
import { type ApiError, ApiException } from './errors.ts'
import { callerOf } from './guard.ts'

/** The submission of a request for a job: with an Idempotency-Key, and the lines of a file. */
export function readKeyedSubmission (
  request: FastifyRequest, settings: Settings
): Submission | ApiError {
  const idempotencyKey = readIdempotencyKey(request.headers['idempotency-key'])
  if (idempotencyKey === undefined) {
    return { code: 'invalid_idempotency_key', param: 'Idempotency-Key' }
  }
  const submission = readSubmission(request, settings)
  const { file } = request
  if ('code' in submission) return submission
  return {
    ...submission,
    idempotencyKey,
    ...file !== undefined && { columns: file.columns, references: file.lines },
    ...file?.delimiter !== undefined && file.delimiter !== ',' && { delimiter: file.delimiter },
  }
}

/**
 * The submission of a request for a quote, without an Idempotency-Key, or its error; a test key may
 * request an error by a sandbox input.
 */
export function readSubmission (
  request: FastifyRequest, settings: Settings
): Submission | ApiError {
  const { tenant, mode, keyId } = callerOf(request)
  const job = readJob(request.body as CreateJobBody, settings, mode)
  if ('code' in job) return job
  const refusal = sandboxRefusal(job, mode, settings)
  if (refusal !== undefined) return refusal
  return {
    ...job,
    tenant,
    idempotencyKey: '',
    fingerprint: fingerprint(job, settings.fingerprintKey),
    apiKey: keyId,
  }
}

/** A request for a job with all defaults; '' for omitted texts. */
type JobRequest = {
  readonly service: ServiceSlug
  readonly inputs: readonly string[]
  /** The id of each input, '' for none; undefined if no input has one. */
  readonly references?: readonly string[]
  readonly country: string
  readonly forceFresh: boolean
  /** Sorted; undefined for none. */
  readonly options?: readonly string[]
  readonly deadlineSeconds?: number
  readonly metadata: Readonly<Record<string, string>>
  readonly webhookUrl: string
  readonly ids?: true
}

const COUNTRIES: ReadonlySet<string> = new Set(COUNTRY_CODES)

/** Reads a body that matches its schema, and checks what no schema can express. */
function readJob (
  body: CreateJobBody, settings: Settings, mode: Mode
): JobRequest | ApiError {
  const { checks, webhooks } = settings
  const service = SERVICE_SLUGS.find(slug => slug === body.service)
  if (service === undefined) return unknownService()
  if (mode !== 'test' && !checks.has(service)) {
    return { code: 'service_not_configured', param: 'service' }
  }
  const country = body.countryCode?.toUpperCase() ?? ''
  if (body.countryCode !== undefined && !COUNTRIES.has(country)) {
    return { code: 'invalid_country_code', param: 'countryCode' }
  }
  const options = [...body.options ?? []].sort()
  const { inputs, references } = readInputs(body.inputs)
  const broken = references?.findIndex(id => !id.isWellFormed()) ?? -1
  if (broken !== -1) {
    const param = `inputs[${broken}].id`
    const message = `${param} has half of a surrogate pair, which is no character. Remove it.`
    return { code: 'invalid_request', param, message }
  }
  return optionsFault(options, offeredOptions(service, { ...settings, mode }), service) ??
  webhookFault(body.webhook_url, webhooks, 'webhook_url') ?? {
    service,
    inputs,
    ...references !== undefined && { references, ids: true },
    country,
    forceFresh: body.forceFresh ?? false,
    ...options.length > 0 && { options },
    ...body.deadline !== undefined && { deadlineSeconds: body.deadline },
    metadata: body.metadata ?? {},
    webhookUrl: asciiUrlOf(body.webhook_url ?? ''),
  }
}

/** The error for options that no job of the service can choose. */
function optionsFault (
  options: readonly string[], offered: readonly OptionName[], service: ServiceSlug
): ApiError | undefined {
  const fault = (text: string): ApiError =>
    ({ code: 'invalid_request', param: 'options', message: `options ${text}` })
  const names = options.map(optionName)
  const foreign = names.find(name => !offered.includes(name))
  if (foreign !== undefined) {
    return fault(`has ${foreign}, which ${service} does not have here. ` + (offered.length === 0
      ? 'It has no options: leave the field out.'
      : `Its options: ${offered.join(', ')}.`))
  }
  if (new Set(names).size < names.length) return fault('has one twice. Send each once.')
  const today = new Date().toISOString().slice(0, DATE_CHARACTERS)
  const date = options.map(optionDate).find(date =>
    date !== undefined && (date > today || !isDay(date)))
  return date === undefined
    ? undefined
    : fault(`has ${date}, which is not a day of the past. Send one as YYYY-MM-DD.`)
}

/** The error for a service that does not exist. */
export function unknownService (): ApiError {
  return {
    code: 'unknown_service',
    param: 'service',
    message: `There is no such service. Use one of: ${SERVICE_SLUGS.join(', ')}.`,
    more: { services: SERVICE_SLUGS },
  }
}

/** The inputs of a body, and their ids if any has one. */
function readInputs (items: readonly JobInput[]): Pick<JobRequest, 'inputs' | 'references'> {
  if (items.every(isPlain)) return { inputs: items }
  const inputs = items.map(item => truncated(typeof item === 'string' ? item : item.input))
  const references = items.map(item => typeof item === 'string' ? '' : item.id)
  return references.some(id => id !== '') ? { inputs, references } : { inputs }
}

/** Whether an item is taken as it is; one pass, as nearly all lists have only such items. */
const isPlain = (item: JobInput): item is string =>
  typeof item === 'string' && item.length <= MAX_INPUT_CHARACTERS

/** A truncated input still shows that it is too long, unless it is only white space. */
const truncated = (input: string) => input.length > MAX_INPUT_CHARACTERS
  ? input.trim().slice(0, MAX_INPUT_CHARACTERS).toWellFormed()
  : input

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

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/

/** The key in lower case, '' without the header, undefined if it is not a UUID v4. */
export function readIdempotencyKey (
  header: string | readonly string[] | undefined
): string | undefined {
  if (header === undefined) return ''
  const key = typeof header === 'string' ? header.toLowerCase() : ''
  return UUID_V4.test(key) ? key : undefined
}

const PIECE_ROWS = 1_000

/**
 * Identifies a request for its Idempotency-Key: 16 bytes of HMAC-SHA256, in hex, over the request
 * as canonical JSON with defaults. The order of fields and labels does not matter, the order of
 * inputs does. Without ids it is that of the inputs alone. An HMAC, because a plain digest would
 * allow guessing contacts.
 */
function fingerprint (request: JobRequest, key: KeyObject): string {
  const metadata = Object.entries(request.metadata).sort(([a], [b]) => (a < b ? -1 : 1))
  const options = [
    'v1', request.service, request.country, request.forceFresh, request.webhookUrl, metadata,
    // Requests without it keep the fingerprint that they had before the option existed.
    ...request.deadlineSeconds === undefined ? [] : [request.deadlineSeconds],
    ...request.options === undefined ? [] : [request.options],
  ]
  const hmac = createHmac('sha256', key).update(JSON.stringify(options))
  updateWithList(hmac, request.inputs)
  if (request.references !== undefined) updateWithList(hmac, request.references)
  return hmac.digest('hex').slice(0, 32)
}

/** In pieces: the text of a whole body would need its size in memory again. */
function updateWithList (hmac: Hmac, texts: readonly string[]): void {
  hmac.update('[')
  for (let from = 0; from < texts.length; from += PIECE_ROWS) {
    const piece = JSON.stringify(texts.slice(from, from + PIECE_ROWS)).slice(1, -1)
    hmac.update(from === 0 ? piece : `,${piece}`)
  }
  hmac.update(']')
}

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

const isSandboxInput: Readonly<Record<ContactKind, (input: string) => boolean>> = {
  phone: input => input.length <= MAX_PHONE_CHARACTERS &&
    `+${input.replace(/\D/g, '')}` === SANDBOX_REFUSALS.phone.input,
  email: input => /^\s*insufficient_balance(\+[^@]*)?@[^@]+$/i.test(input),
}

/**
 * The error of a job of a test key with a sandbox input, like that of an empty wallet at live
 * prices. Live keys have no sandbox inputs.
 */
function sandboxRefusal (
  { service, inputs, options = [] }: JobRequest, mode: Mode,
  { prices, optionPrices }: Settings
): ApiError | undefined {
  const { kind } = SERVICE_DEFINITIONS[service]
  if (mode !== 'test' || !inputs.some(isSandboxInput[kind])) return undefined
  const priced = options.filter(option => optionPrices[optionName(option)] !== undefined)
  const rowMicros = unitPriceMicros(prices, service, 'live') +
    optionsPriceMicros(optionPrices, priced, 'live')
  const requiredMicros = rowMicros * inputs.length
  return { code: 'insufficient_balance', more: { requiredMicros, availableMicros: 0 } }
}

const WHOLE_NUMBER = /^(0|[1-9]\d{0,8})$/
const LABEL = /^metadata\[(.*)\]$/s

/**
 * Reads the fields of queries as their schemas have them, before they are validated: whole numbers,
 * lists with commas between their items, and labels, which are sent as `metadata[name]=value`. A
 * text that is not a whole number is left alone, so that its schema rejects it.
 */
export function readQueryFields (app: FastifyInstance): void {
  app.addHook('preValidation', async request => {
    const { schema, config } = request.routeOptions
    // Options of files stand in forms as well, and are read with them.
    if (schema?.querystring === undefined || config.takesFile === 'contacts') return
    const { properties } = schema.querystring as QuerySchema
    const fields: [string, unknown][] = []
    const labels: [string, unknown][] = []
    for (const [name, value] of Object.entries(request.query as Record<string, unknown>)) {
      const label = 'metadata' in properties ? LABEL.exec(name)?.[1] : undefined
      if (label === undefined) fields.push([name, readField(name, value, properties[name]?.type)])
      else labels.push([label, value])
    }
    if (labels.length > 0) fields.push(['metadata', Object.fromEntries(labels)])
    request.query = Object.fromEntries(fields)
  })
}

type QuerySchema = { readonly properties: Readonly<Record<string, { readonly type?: string }>> }

/** @throws ApiException `invalid_request` for a list that was sent more than once. */
function readField (name: string, value: unknown, type: string | undefined): unknown {
  if (type === 'integer' && typeof value === 'string' && WHOLE_NUMBER.test(value)) {
    return Number(value)
  }
  if (type !== 'array') return value
  if (typeof value === 'string') return value.split(',')
  throw new ApiException({
    code: 'invalid_request',
    param: name,
    message: `${name} was sent more than once. Send it once, with commas between its values.`,
  })
}

const DAY_MS = 86_400_000

type Range = { readonly fromMs?: number, readonly toMs?: number }

/**
 * A time range of a query: `from` is its first millisecond, `to` the first one after it. A date is
 * its whole day in UTC.
 * @throws ApiException `invalid_request` with the field.
 */
export function timeRange (
  query: Readonly<Record<string, unknown>>,
  { from, to }: { readonly from: string, readonly to: string }
): Range {
  const fromMs = timeOf(query, from)
  const toMs = timeOf(query, to, DAY_MS)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw invalidTime(from, `must be before ${to}.`)
  }
  return { ...fromMs !== undefined && { fromMs }, ...toMs !== undefined && { toMs } }
}

function timeOf (
  query: Readonly<Record<string, unknown>>, name: string, dateLengthMs = 0
): number | undefined {
  const text = query[name]
  if (typeof text !== 'string') return undefined
  const isDate = text.length === DATE_CHARACTERS
  // The form is that of the schema, which also takes the 30th of February.
  if (!isDay(text.slice(0, DATE_CHARACTERS))) {
    throw invalidTime(name, 'is not a day of the calendar.')
  }
  return Date.parse(text) + (isDate ? dateLengthMs : 0)
}

/** The characters of YYYY-MM-DD. */
const DATE_CHARACTERS = 10

/** Whether a text of the form YYYY-MM-DD is a day of the calendar. */
function isDay (text: string): boolean {
  // JavaScript takes the 30th of February for a day in March.
  return !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)
}

/** The error for an invalid time; `what` is the rest of a sentence that begins with the field. */
export function invalidTime (param: string, what: string): ApiException {
  return new ApiException({ code: 'invalid_request', param, message: `${param} ${what}` })
}
