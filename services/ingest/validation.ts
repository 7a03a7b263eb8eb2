import type { FastifySchemaValidationError } from 'fastify/types/schema.js'
import { MAX_INPUTS } from '../../schemas/api/create-job.ts'
import type { ErrorCode, ApiError } from './errors.ts'

/** Field names are truncated to this length; a client can send one of megabytes. */
export const SHOWN_CHARACTERS = 100

/** The validated part of a request, as named by Fastify. */
export type RequestPart = 'body' | 'querystring' | 'params' | 'headers'

/** A validation error with the schema that was violated. */
export type Mismatch = FastifySchemaValidationError & {
  readonly parentSchema?: Readonly<Record<string, unknown>>
  readonly propertyName?: string
}

/** Error codes of certain fields and keywords. */
const CODES: Readonly<Record<string, ErrorCode>> = {
  'service enum': 'unknown_service',
  'inputs maxItems': 'too_many_inputs',
  'countryCode pattern': 'invalid_country_code',
  'webhook_url maxLength': 'invalid_webhook_url',
  'url maxLength': 'invalid_webhook_url',
}

/** Codes whose message in the table is better than one from a schema. */
const OWN_MESSAGE: ReadonlySet<ErrorCode> = new Set(['too_many_inputs', 'invalid_country_code'])

const PLACES: Readonly<Record<RequestPart, string>> = {
  body: 'The body', querystring: 'The query', params: 'The path', headers: 'The headers',
}

/** The error for a request that violates its schema; only the first violation is reported. */
export function validationError (
  errors: readonly Mismatch[], place: RequestPart = 'body'
): ApiError {
  const error = errors[0]
  if (error === undefined) return { code: 'invalid_request' }
  const path = paramOf(error)
  // An item of a list in the query belongs to one parameter.
  const param = place === 'querystring' ? path.replace(/\[\d+\]$/, '') : path
  const code = (place === 'body' ? CODES[`${param} ${error.keyword}`] : undefined) ??
    'invalid_request'
  const shown = param === '' ? {} : { param }
  if (code === 'too_many_inputs' && error.params['limit'] !== MAX_INPUTS) {
    return { code, ...shown, message: tooManyText(Number(error.params['limit'])) }
  }
  if (OWN_MESSAGE.has(code)) return { code, ...shown }
  const message = `${path === '' ? PLACES[place] : path} ${textOf(error, place)}`
  if (code !== 'unknown_service') return { code, ...shown, message }
  const services = error.params['allowedValues'] as readonly string[]
  return { code, ...shown, message, more: { services } }
}

/** The message of a route that takes fewer inputs than a job. */
function tooManyText (limit: number): string {
  return `This request has at most ${limit} inputs. Split it, or send it to POST /api/v1/jobs, ` +
    `which takes up to ${MAX_INPUTS.toLocaleString('en-US')}.`
}

/** What is wrong and what to do, as the rest of a sentence that begins with the field. */
function textOf (error: Mismatch, place: RequestPart): string {
  const { keyword, params } = error
  if (error.propertyName !== undefined) return keyTextOf(error)
  switch (keyword) {
    case 'additionalProperties': return unknownText(error, place)
    case 'required': return 'is missing. Send it.'
    case 'type': return place === 'querystring' ? queryTypeText(error) : mustBeText(error)
    case 'enum': return `must be one of: ${listOf(params['allowedValues'])}.`
    case 'const': return `must be ${JSON.stringify(params['allowedValue'])}, or be left out.`
    case 'minimum':
    case 'maximum': return mustBeText(error)
    default: return sizeText(error) ?? `is not valid.${hintOf(error)}`
  }
}

/** Sentences on what is too much or too little. */
function sizeText ({ keyword, params }: Mismatch): string | undefined {
  const limit = Number(params['limit'])
  const count = limit.toLocaleString('en-US')
  switch (keyword) {
    case 'minItems': return `is empty. Send at least ${count}.`
    case 'maxItems': return `has too many items. Send at most ${count}.`
    case 'minLength': return limit === 1
      ? 'is empty. Send a text, or leave it out.'
      : `is too short. It must have at least ${count} characters.`
    case 'maxLength': return `is too long. It can have at most ${count} characters.`
    case 'uniqueItems': return 'has a value twice. Send each once.'
    case 'minProperties': return 'is empty. Send at least one field.'
    case 'maxProperties': return `has too many entries. Send at most ${count}.`
    default: return undefined
  }
}

function keyTextOf ({ params }: Mismatch): string {
  return `has a key of more than ${String(params['limit'])} characters. Shorten it.`
}

function unknownText ({ parentSchema }: Mismatch, place: RequestPart): string {
  const known = Object.keys((parentSchema?.['properties'] ?? {}) as object)
  const what = place === 'querystring' ? 'parameter' : 'field'
  const list = known.length === 0 ? '' : ` Leave it out; there are: ${known.join(', ')}.`
  return `is not a ${what} of this request.${list}`
}

const TYPES: Readonly<Record<string, string>> = {
  string: 'a text in quotes',
  boolean: 'true or false, without quotes',
  array: 'a list in square brackets',
  object: 'a JSON object in braces',
}

/** A query holds texts only, so one that is no text was sent several times. */
function queryTypeText (error: Mismatch): string {
  if (error.params['type'] === 'string') return 'was sent more than once. Send it once.'
  if (error.params['type'] !== 'object') return mustBeText(error)
  return `is sent with a name in brackets: ${paramOf(error)}[name]=value.`
}

const mustBeText = (error: Mismatch) => `must be ${typeText(error)}.`

function typeText ({ params, parentSchema = {} }: Mismatch): string {
  const type = String(parentSchema['type'] ?? params['type'])
  const { minimum, maximum } = parentSchema
  if (type !== 'integer') return TYPES[type] ?? type
  const from = minimum === undefined ? '' : ` from ${Number(minimum).toLocaleString('en-US')}`
  const to = maximum === undefined ? '' : ` to ${Number(maximum).toLocaleString('en-US')}`
  return `a whole number${from}${to}`
}

/** What the field is, from its description, where no keyword says what to do. */
function hintOf ({ parentSchema }: Mismatch): string {
  const description = parentSchema?.['description']
  return typeof description === 'string' ? ` It is: ${description}` : ''
}

function listOf (values: unknown): string {
  return Array.isArray(values) ? values.join(', ') : String(values)
}

/** `/inputs/3` is shown as `inputs[3]`, `/metadata/team` as `metadata.team`. */
function paramOf (error: Mismatch): string {
  const { additionalProperty, missingProperty } = error.params as Record<string, string | undefined>
  const own = additionalProperty ?? missingProperty
  const steps = error.instancePath.split('/').slice(1).map(step =>
    step.replaceAll('~1', '/').replaceAll('~0', '~'))
  if (own !== undefined) steps.push(own)
  const path = steps.reduce((before, step) =>
    before === '' ? step : /^\d+$/.test(step) ? `${before}[${step}]` : `${before}.${step}`, '')
  return path.slice(0, SHOWN_CHARACTERS)
}
