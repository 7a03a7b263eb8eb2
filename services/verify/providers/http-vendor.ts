import { LRUCache } from 'lru-cache'
import Type, { type Static, type TSchema } from 'typebox'
import { Errors } from 'typebox/schema'
import { COLUMNS } from '../../../schemas/api/columns.ts'
import { PROVIDER_REASONS, ROW_STATUSES } from '../../../schemas/api/verdicts.ts'
import { OPTION_NAMES, type OptionName } from '../../jobs/options.ts'
import { listColumns, SERVICE_DEFINITIONS } from '../../jobs/results/columns.ts'
import { publicPath } from '../../runtime/platform/config.ts'
import { SERVICE_SLUGS } from '../../topology.ts'
import { PROVIDER_FAILURES } from '../provider.ts'
import { builtInLists } from './email-lists.ts'

const closed = { additionalProperties: false } as const
const text = Type.String({ minLength: 1, maxLength: 2_000 })
const pointer = Type.String({ pattern: '^(/([^~/]|~[01])*)*$' })
const failure = Type.Enum([...PROVIDER_FAILURES])
const reason = Type.Enum([...PROVIDER_REASONS])
const words = <T extends Type.TSchema>(of: T) => Type.Record(Type.String(), of)
const maybe = Type.Optional

/** The schema of each kind of authentication. */
const AUTH = {
  none: Type.Object({ kind: Type.Literal('none') }, closed),
  bearer: Type.Object({ kind: Type.Literal('bearer'), token: text }, closed),
  header: Type.Object({ kind: Type.Literal('header'), name: text, value: text }, closed),
  query: Type.Object({ kind: Type.Literal('query'), name: text, value: text }, closed),
  basic: Type.Object({ kind: Type.Literal('basic'), username: text, password: text }, closed),
} as const

type HttpAuth = Static<typeof AUTH[keyof typeof AUTH]>

const outcome = Type.Object({
  status: Type.Enum([...ROW_STATUSES]),
  reason,
  confidence: maybe(Type.Integer({ minimum: 0, maximum: 100 })),
}, closed)

const fields = Type.Object({ pointer, values: maybe(words(text)) }, closed)
const reasons = Type.Object({ pointer, values: words(reason) }, closed)
const rate = Type.Object({
  calls: Type.Integer({ minimum: 1 }), perMs: Type.Integer({ minimum: 1 }),
}, closed)

/** A file in a multipart form. */
const file = Type.Object({ name: text, type: text, text }, closed)
const multipart = words(Type.Union([Type.String(), file]))

/** A call with the authentication of the vendor. */
const call = {
  url: text,
  method: maybe(Type.Enum(['GET', 'POST', 'PUT'])),
  query: maybe(words(Type.String())),
  body: maybe(Type.Unknown()),
  multipart: maybe(multipart),
}

/** How rows are submitted as a task, and how its answers are fetched. */
const batch = Type.Object({
  task: pointer,
  idempotent: maybe(Type.Boolean()),
  find: maybe(Type.Object({ ...call, rows: pointer, reference: pointer, task: pointer }, closed)),
  status: Type.Object({
    ...call,
    pointer,
    values: words(Type.Enum(['running', 'ended', 'failed'])),
  }, closed),
  result: maybe(Type.Object({
    ...call,
    url: maybe(text),
    link: maybe(pointer),
    hosts: maybe(Type.Array(text, { minItems: 1 })),
    format: maybe(Type.Enum(['json', 'table'])),
  }, closed)),
  pollMs: maybe(Type.Integer({ minimum: 1_000, maximum: 3_600_000 })),
  deadlineMs: maybe(Type.Integer({ minimum: 1_000, maximum: 86_400_000 })),
  rate: maybe(rate),
}, closed)

/** What a priced option adds to the query of a request; commas join texts of one name. */
const option = Type.Object({ query: words(text) }, closed)

/** The schema of a vendor, without the details of `AUTH`. */
const VENDOR = Type.Object({
  id: Type.Integer({ minimum: 1, maximum: 999_999 }),
  name: text,
  words: maybe(Type.Array(Type.String({ minLength: 3 }))),
  services: Type.Array(Type.Enum([...SERVICE_SLUGS]), { minItems: 1 }),
  url: text,
  method: Type.Enum(['GET', 'POST', 'PUT']),
  auth: Type.Object({ kind: Type.Enum(['none', 'bearer', 'header', 'query', 'basic']) }),
  maxRows: maybe(Type.Integer({ minimum: 1, maximum: 2_000 })),
  request: maybe(Type.Object({
    headers: maybe(words(Type.String())),
    query: maybe(words(Type.String())),
    body: maybe(Type.Unknown()),
    multipart: maybe(multipart),
    row: maybe(Type.Unknown()),
    services: maybe(words(text)),
  }, closed)),
  response: Type.Object({
    rows: maybe(pointer),
    match: maybe(Type.Object({
      row: maybe(pointer), contact: maybe(pointer), key: maybe(Type.Enum(['row', 'contact'])),
    }, closed)),
    verdict: Type.Object({ pointer, values: words(outcome) }, closed),
    reason: maybe(Type.Union([reasons, Type.Array(reasons, { minItems: 1 })])),
    fields: maybe(words(fields)),
  }, closed),
  errors: maybe(Type.Object({
    statuses: maybe(words(failure)),
    field: maybe(Type.Object({
      pointer,
      values: maybe(words(failure)),
      fine: maybe(Type.Array(Type.String())),
      otherwise: maybe(failure),
    }, closed)),
  }, closed)),
  options: maybe(Type.Object(
    Object.fromEntries(OPTION_NAMES.map(name => [name, maybe(option)])) as
      Record<OptionName, Type.TOptional<typeof option>>,
    closed)),
  timeoutMs: maybe(Type.Integer({ minimum: 1 })),
  concurrency: maybe(Type.Integer({ minimum: 1 })),
  rate: maybe(rate),
  batch: maybe(batch),
}, closed)

/** The JSON API of a vendor, as a preset or the operator in `HTTP_PROVIDERS` describes it. */
export type HttpVendor = Omit<Static<typeof VENDOR>, 'auth'> & { readonly auth: HttpAuth }

/** The vendor takes batches: `check` submits. */
export type BatchVendor = HttpVendor & { readonly batch: Static<typeof batch> }

/** A call that a description makes, by default with GET. */
export type HttpCall = {
  readonly url: string
  readonly method?: 'GET' | 'POST' | 'PUT' | undefined
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly query?: Readonly<Record<string, string>> | undefined
  readonly body?: unknown
  readonly multipart?: Static<typeof multipart> | undefined
}

/** The placeholders in the texts of a request. */
export const PLACEHOLDERS = [
  'contact', 'digits', 'contacts', 'lines', 'row', 'rowNumber', 'rows', 'service', 'reference',
  'task', 'since',
] as const

/** Matches every `{name}` in a text. */
export const PLACEHOLDER = /\{([A-Za-z]+)\}/g

/** Converts a vendor's text to a value of the column; undefined if it is not valid there. */
type ColumnReader = (text: string, vendorWords: readonly string[]) => string | undefined

const matching = (pattern: RegExp): ColumnReader => (text) => pattern.test(text) ? text : undefined

/** The columns that a vendor can fill; all others derive from the contact or the job. */
export const VENDOR_COLUMNS: Readonly<Record<string, ColumnReader>> = {
  carrier: neutralText,
  region: neutralText,
  locality: neutralText,
  timezone: (text) => isTimeZone(text) ? text : undefined,
  // Of the release: this keeps text of a vendor out of results, it is no verdict.
  suggestion: (text) => builtInLists.lookUp(text).free ? text : undefined,
  ...Object.fromEntries(Object.entries(COLUMNS).flatMap(([name, { type, vendor }]) => {
    const pattern = type === 'boolean' ? /^(?:true|false)$/ : vendor
    return pattern === undefined ? [] : [[name, matching(pattern)]]
  })),
}

const MAX_TEXT = 60
/** Including white space around and between the words. */
const MAX_RAW_TEXT = 240
/** Letters, digits and the punctuation of names of companies and places. */
const NAME = /^(?=.*\p{L})[\p{L}\p{M}\p{N} &.,'’()/+-]+$/u
/** A host name, or words that are joined by dots. */
const HOST = /[\p{L}\p{N}-]\.[\p{L}]{2,}|www\./iu
/** An identifier or key: many digits, or a long word of letters and digits. */
const IDENTIFIER = /\d{5,}|\b(?=\w*\d)(?=\w*[a-z])\w{8,}\b|[0-9a-f]{8}-/i

/**
 * The name of a carrier or place as the vendor writes it. Undefined if it resembles a host name or
 * an identifier, or contains a word that names the vendor: those must never leave the process.
 */
function neutralText (text: string, vendorWords: readonly string[]): string | undefined {
  // Checked before the normalization, which can turn one character into eighteen.
  if (text.length > MAX_RAW_TEXT) return undefined
  const clean = text.normalize('NFKC').replace(/\s+/g, ' ').trim()
  if (clean.length > MAX_TEXT || !NAME.test(clean)) return undefined
  if (HOST.test(clean) || IDENTIFIER.test(clean)) return undefined
  const letters = keepLetters(clean)
  return vendorWords.some((word) => letters.includes(word)) ? undefined : clean
}

/** Words of company and host names that do not identify a vendor. */
const COMMON: ReadonlySet<string> = new Set([
  'www', 'api', 'apis', 'gateway', 'rest', 'com', 'net', 'org', 'localhost', 'app', 'cloud', 'dev',
  'mobile', 'wireless', 'telecom', 'phone', 'phones', 'number', 'numbers', 'communications',
])
const MIN_WORD = 3
/** A shorter part of a name may occur in any other name. */
const MIN_PART = 5

/** The words that identify a vendor: its name, the labels of its host, `words`, and their parts. */
export function listVendorWords (
  { name, words = [], url }: { name: string, words?: readonly string[], url: string }
): readonly string[] {
  const { hostname } = new URL(url)
  const labels = hostname.split('.').slice(0, -1).filter((label) => /[a-z]/.test(label))
  const wholes = [name, ...words, ...labels]
  const parts = wholes.flatMap((whole) => whole.split(/[^\p{L}\p{N}]+/u))
    .filter((part) => part.length >= MIN_PART)
  return [...new Set([...wholes, ...parts].map(keepLetters))]
    .filter((word) => word.length >= MIN_WORD && !COMMON.has(word))
}

function keepLetters (text: string): string {
  return text.normalize('NFKC').toLowerCase().replace(/[^\p{L}\p{N}]/gu, '')
}

const knownZones = new LRUCache<string, boolean>({ max: 1_000 })

/** Whether a text is an IANA time zone. Cached: the check of an unknown zone is slow. */
function isTimeZone (text: string): boolean {
  const checked = knownZones.get(text)
  if (checked !== undefined) return checked
  if (text.length > MAX_TEXT) return false
  let isZone = /^[A-Z][A-Za-z_]+(?:\/[A-Za-z0-9_+-]+){0,2}$/.test(text)
  try {
    if (isZone) new Intl.DateTimeFormat('en', { timeZone: text }).format()
  } catch {
    isZone = false
  }
  knownZones.set(text, isZone)
  return isZone
}

const FIRST_PRESET_ID = 900_001

type ReadVendors = {
  readonly providers: readonly HttpVendor[]
  /** Messages without values, because values may be secret. */
  readonly faults: readonly string[]
}

/**
 * Reads the vendors of `HTTP_PROVIDERS` (see deploy/docs/providers.md) and reports all faults at
 * once: those against the schema and, for a vendor without these, contradictions.
 */
export function readHttpProviders (
  described: readonly unknown[], arePresets = false
): ReadVendors {
  const faults: string[] = []
  const providers: HttpVendor[] = []
  for (const [index, value] of described.entries()) {
    const inSchema = schemaFaults(value)
    const vendor = value as HttpVendor
    const all = inSchema.length > 0
      ? inSchema
      : [
          ...addressFaults(vendor.url), ...requestFaults(vendor), ...matchFaults(vendor),
          ...fieldFaults(vendor), ...serviceFaults(vendor), ...valueFaults(vendor),
          ...taskFaults(vendor),
        ]
    faults.push(...all.map((fault) => `vendor ${index + 1}: ${fault}`))
    if (all.length === 0) providers.push(vendor)
  }
  const ids = described.flatMap((value) =>
    typeof value === 'object' && value !== null && 'id' in value && typeof value.id === 'number'
      ? [value.id]
      : [])
  if (!arePresets && ids.some((id) => id >= FIRST_PRESET_ID)) {
    faults.push(`ids from ${FIRST_PRESET_ID} are those of presets; use a lower one`)
  }
  for (const id of new Set(ids.filter((id, index) => ids.indexOf(id) !== index))) {
    faults.push(`the id ${id} is used more than once; give each vendor its own`)
  }
  return { providers, faults }
}

function schemaFaults (value: unknown): readonly string[] {
  const faults = listFaults(VENDOR, value)
  const auth = (value as { auth?: { kind?: unknown } } | null)?.auth
  const kind = auth?.kind
  const schema = typeof kind === 'string' && Object.hasOwn(AUTH, kind)
    ? AUTH[kind as keyof typeof AUTH]
    : undefined
  const inAuth = schema === undefined ? [] : listFaults(schema, auth)
  faults.push(...inAuth.map((fault) => `at auth: ${fault}`))
  return [...new Set(faults)]
}

type Fault = ReturnType<typeof Errors>[1][number]

/** A forbidden property is also reported by the object that contains it, so it is left out. */
function listFaults (schema: TSchema, value: unknown): string[] {
  const [, faults] = Errors(schema, value)
  return faults.filter(({ keyword }) => keyword !== 'boolean')
    .map((fault) => formatFault({
      ...fault, instancePath: publicPath(schema, value, fault.instancePath),
    }))
}

function formatFault ({ instancePath, message, params }: Fault): string {
  const where = instancePath === '' ? '' : `at "${instancePath.slice(1)}" `
  if ('allowedValues' in params && Array.isArray(params.allowedValues)) {
    return `${where}must be one of ${params.allowedValues.join(', ')}`
  }
  const extra = 'additionalProperties' in params ? params.additionalProperties : undefined
  if (Array.isArray(extra)) {
    // Not their names: of a name and value that were swapped, the name is the secret.
    return `${where}has unknown properties (${extra.length}); remove or rename them`
  }
  return where + message
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

/** A rule of a description that is broken if the first is true, and what to do then. */
type Rule = readonly [isBroken: boolean, fault: string]

const brokenRules = (...rules: readonly Rule[]): readonly string[] =>
  rules.flatMap(([isBroken, fault]) => isBroken ? [fault] : [])

function addressFaults (text: string): readonly string[] {
  const url = URL.parse(text)
  if (url === null) return ['url is not valid; write https://host/path']
  const isHere = url.protocol === 'http:' && LOOPBACK.has(url.hostname)
  return brokenRules(
    [url.protocol !== 'https:' && !isHere,
      'url must begin with https://, because calls contain contacts'],
    [url.username !== '' || url.password !== '',
      'url must not contain a user or password; use auth of the kind basic'])
}

/** All placeholders in the texts of a request. */
function findPlaceholders (value: unknown): ReadonlySet<string> {
  const text = JSON.stringify(value) ?? ''
  return new Set([...text.matchAll(PLACEHOLDER)].map(([, name = '']) => name))
}

const CONTACT = ['contact', 'digits', 'contacts', 'lines']

function requestFaults ({ url, method, request = {}, response, maxRows = 1 }: HttpVendor):
readonly string[] {
  const { query, headers, body, multipart, row } = request
  const outside = findPlaceholders([url, query, headers, body, multipart])
  const all = new Set([...outside, ...findPlaceholders(row)])
  const sent = outside.has('rows') ? all : outside
  const unknown = [...all].filter((name) => !(PLACEHOLDERS as readonly string[]).includes(name))
  const byRow = response.match?.row !== undefined || response.match?.key === 'row'
  const alone = ['contact', 'digits', 'row', 'rowNumber'].filter((name) => outside.has(name))
  return [
    ...unknown.map((name) => `request has the unknown placeholder {${name}}; use ` +
      `{${PLACEHOLDERS.join('}, {')}}`),
    ...brokenRules(
      [!CONTACT.some((name) => sent.has(name)),
        'request must send the contact; use {contact}, {digits}, {contacts} or {lines}'],
      [method === 'GET' && (body !== undefined || multipart !== undefined),
        `request.${body === undefined ? 'multipart' : 'body'} needs the method POST or PUT`],
      [body !== undefined && multipart !== undefined,
        'request has body and multipart; give one of them'],
      [outside.has('rows') !== (row !== undefined),
        'request.row describes what {rows} in request.body lists; give both or none'],
      [byRow && !sent.has('row') && !sent.has('rowNumber'),
        'response.match needs request to send {row} or {rowNumber}'],
      [maxRows > 1 && alone.length > 0,
        `request sends one row with {${alone.join('}, {')}}, but maxRows is greater than 1`]),
  ]
}

function matchFaults ({ maxRows = 1, response: { rows, match } }: HttpVendor): readonly string[] {
  const isEmpty = match !== undefined &&
    [match.row, match.contact, match.key].every((way) => way === undefined)
  return brokenRules(
    [isEmpty, 'response.match must name row, contact or key'],
    [maxRows > 1 && match === undefined,
      'response.match must name how answers are matched to rows'],
    [maxRows > 1 && rows === undefined, 'response.rows must point at the rows of an answer'],
    [match === undefined && rows !== undefined, 'response.rows needs response.match'])
}

function fieldFaults (
  { services, options = {}, response: { fields = {} } }: HttpVendor
): readonly string[] {
  const chosen = Object.keys(options)
  const unanswered = chosen.filter(name => fields[name] === undefined)
    .map(name => `options has ${name}, which response.fields does not fill`)
  return [...unanswered, ...Object.entries(fields).flatMap(([column, { values = {} }]) => {
    const reader = VENDOR_COLUMNS[column]
    if (!Object.hasOwn(VENDOR_COLUMNS, column) || reader === undefined) {
      const names = Object.keys(VENDOR_COLUMNS).join(', ')
      return [`response.fields has the unknown ${column}; use ${names}`]
    }
    const isInResults = services.some((service) =>
      listColumns(service, { options: chosen }).includes(column))
    const isInvalid = Object.values(values).some((value) => reader(value, []) === undefined)
    return brokenRules(
      [!isInResults,
        `response.fields has ${column}, which the results of its services do not have`],
      [isInvalid, `response.fields.${column} has values that are not valid there`])
  })]
}

function serviceFaults ({ services, request, response }: HttpVendor): readonly string[] {
  const missing = services.filter((service) =>
    (SERVICE_DEFINITIONS[service].columns as readonly string[]).includes(service) &&
    response.fields?.[service] === undefined)
  return [
    ...missing.map((service) =>
      `response.fields must fill the column ${service} of that service`),
    ...Object.keys(request?.services ?? {})
      .filter((slug) => !(services as readonly string[]).includes(slug))
      .map((slug) => `request.services has ${slug}, which is not in services`),
  ]
}

/** A messenger's verdict is about the registration, so `valid` means that people can be reached. */
function valueFaults ({ response: { verdict }, errors }: HttpVendor): readonly string[] {
  return [
    ...Object.values(verdict.values)
      .filter(({ status, reason }) => reason === 'not_registered' && status !== 'invalid')
      .map(({ status }) => 'response.verdict.values has the reason not_registered with the ' +
        `status ${status}; use the status invalid`),
    ...Object.keys(errors?.statuses ?? {})
      .filter((status) => !/^[1-5](?:\d\d|xx)$/.test(status))
      .map((status) => `errors.statuses has ${status}; use a status such as 429 or 5xx for ` +
        `one of ${PROVIDER_FAILURES.join(', ')}`),
  ]
}

/** The contradictions of a vendor that takes batches, and what only such a vendor may have. */
function taskFaults ({ batch, request, url, response }: HttpVendor): readonly string[] {
  const inSubmit = findPlaceholders([url, request])
  const faults = brokenRules(
    [inSubmit.has('task'), 'request has {task}, which is known after it; use {reference}'],
    [batch === undefined && inSubmit.has('reference'), 'request has {reference} without batch'])
  if (batch === undefined) return faults
  const { find, status, result, idempotent } = batch
  const { match } = response
  const calls = { status, find, result: result?.url === undefined ? undefined : result }
  return [
    ...faults,
    ...brokenRules(
      [match?.contact === undefined && match?.key !== 'contact',
        'batch needs response.match with contact, or the key contact'],
      [match?.row !== undefined || match?.key === 'row',
        'batch matches answers by contact; remove row from response.match'],
      [(idempotent === true || find !== undefined) && !inSubmit.has('reference'),
        'batch.find and batch.idempotent need request to send {reference}'],
      [result !== undefined && (result.url === undefined) === (result.link === undefined),
        'batch.result needs url or link, and not both'],
      [!Object.values(status.values).includes('ended'),
        'batch.status.values must say which value is ended']),
    ...Object.entries(calls).flatMap(([name, call]) => {
      if (call === undefined) return []
      const used = findPlaceholders(call)
      const far = [...used].filter((it) => !['task', 'reference', 'service'].includes(it))
      return [
        ...brokenRules(
          [name !== 'find' && !used.has('task'), `batch.${name} must send {task}`],
          [far.length > 0,
            `batch.${name} has {${far.join('}, {')}}; use {task}, {reference} or {service}`]),
        ...addressFaults(call.url ?? '').map((fault) => `batch.${name}: ${fault}`),
      ]
    }),
  ]
}
