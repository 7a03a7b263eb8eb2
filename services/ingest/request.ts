import type { FastifyInstance } from 'fastify'
import { type WebhookRules, webhookUrlError } from '../webhooks/url.ts'
import { ApiException } from './errors.ts'

const WHOLE_NUMBER = /^(0|[1-9]\d{0,8})$/
/** The name of a label in a query or a form. */
export const LABEL = /^metadata\[(.*)\]$/s

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
  const fromMs = parseTime(query, from)
  const toMs = parseTime(query, to, DAY_MS)
  if (fromMs !== undefined && toMs !== undefined && fromMs >= toMs) {
    throw invalidTime(from, `must be before ${to}.`)
  }
  return { ...fromMs !== undefined && { fromMs }, ...toMs !== undefined && { toMs } }
}

function parseTime (
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
export const DATE_CHARACTERS = 10

/** Whether a text of the form YYYY-MM-DD is a day of the calendar. */
export function isDay (text: string): boolean {
  // JavaScript takes the 30th of February for a day in March.
  return !Number.isNaN(Date.parse(text)) && new Date(text).toISOString().startsWith(text)
}

/** The error for an invalid time; `what` is the rest of a sentence that begins with the field. */
export function invalidTime (param: string, what: string): ApiException {
  return new ApiException({ code: 'invalid_request', param, message: `${param} ${what}` })
}

/** @throws ApiException for an address in the field `param` that cannot receive events. */
export function checkWebhookUrl (
  url: string | undefined, rules: WebhookRules, param: 'webhook_url' | 'url'
): void {
  const why = url === undefined ? undefined : webhookUrlError(url, rules)
  if (why === undefined) return
  throw new ApiException({
    code: 'invalid_webhook_url',
    param,
    message: `${param} is not an acceptable address. ${why} Send a public https:// address.`,
  })
}
