import type { TSchema } from 'typebox'
import { Errors } from 'typebox/schema'
import { publicPath } from '../../runtime/platform/config.ts'
import { columnsOf, SERVICES } from '../../jobs/results/columns.ts'
import type { ServiceSlug } from '../../topology.ts'
import { PROVIDER_FAILURES } from '../provider.ts'
import { VENDOR_COLUMNS } from './http-answer.ts'
import { AUTH, type HttpVendor, VENDOR } from './http-vendor.ts'
import { PLACEHOLDER, PLACEHOLDERS } from './http.ts'

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
    const found = schemaFaults(value)
    const all = found.length > 0 ? found : meaningFaults(value as HttpVendor)
    faults.push(...all.map((fault) => `vendor ${index + 1}: ${fault}`))
    if (all.length === 0) providers.push(value as HttpVendor)
  }
  const ids = described.map(idOf)
  if (!arePresets && ids.some((id) => typeof id === 'number' && id >= FIRST_PRESET_ID)) {
    faults.push(`ids from ${FIRST_PRESET_ID} are those of presets; use a lower one`)
  }
  for (const id of repeated(ids)) {
    faults.push(`the id ${id} is used more than once; give each vendor its own`)
  }
  return { providers, faults }
}

function schemaFaults (value: unknown): readonly string[] {
  const faults = faultsOf(VENDOR, value)
  const auth = (value as { auth?: { kind?: unknown } } | null)?.auth
  const kind = auth?.kind
  const schema = typeof kind === 'string' && Object.hasOwn(AUTH, kind)
    ? AUTH[kind as keyof typeof AUTH]
    : undefined
  const inAuth = schema === undefined ? [] : faultsOf(schema, auth)
  faults.push(...inAuth.map((fault) => `at auth: ${fault}`))
  return [...new Set(faults)]
}

type Fault = ReturnType<typeof Errors>[1][number]

/** A forbidden property is also reported by the object that contains it, so it is left out. */
function faultsOf (schema: TSchema, value: unknown): string[] {
  const [, faults] = Errors(schema, value)
  return faults.filter(({ keyword }) => keyword !== 'boolean')
    .map((fault) => messageOf({
      ...fault, instancePath: publicPath(schema, value, fault.instancePath),
    }))
}

function messageOf ({ instancePath, message, params }: Fault): string {
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

function idOf (value: unknown): unknown {
  return typeof value === 'object' && value !== null && 'id' in value ? value.id : undefined
}

function repeated (ids: readonly unknown[]): readonly number[] {
  const numbers = ids.filter((id) => typeof id === 'number')
  return [...new Set(numbers.filter((id, index) => numbers.indexOf(id) !== index))]
}

/** The contradictions in a vendor that matches the schema, as messages without values. */
export function meaningFaults (vendor: HttpVendor): readonly string[] {
  return [
    ...addressFaults(vendor.url), ...requestFaults(vendor), ...batchFaults(vendor),
    ...fieldFaults(vendor), ...serviceFaults(vendor), ...verdictFaults(vendor),
    ...errorFaults(vendor), ...taskFaults(vendor),
  ]
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

function addressFaults (text: string): readonly string[] {
  const url = URL.parse(text)
  if (url === null) return ['url is not valid; write https://host/path']
  const faults: string[] = []
  const here = url.protocol === 'http:' && LOOPBACK.has(url.hostname)
  if (url.protocol !== 'https:' && !here) {
    faults.push('url must begin with https://, because calls contain contacts')
  }
  if (url.username !== '' || url.password !== '') {
    faults.push('url must not contain a user or password; use auth of the kind basic')
  }
  return faults
}

/** All placeholders in the texts of a request. */
function placeholdersOf (value: unknown): ReadonlySet<string> {
  const text = JSON.stringify(value) ?? ''
  return new Set([...text.matchAll(PLACEHOLDER)].map(([, name = '']) => name))
}

const CONTACT = ['contact', 'digits', 'contacts', 'lines']

function requestFaults ({ url, method, request = {}, response, maxRows = 1 }: HttpVendor):
readonly string[] {
  const faults: string[] = []
  const { query, headers, body, multipart, row } = request
  const outside = placeholdersOf([url, query, headers, body, multipart])
  const all = new Set([...outside, ...placeholdersOf(row)])
  const sent = outside.has('rows') ? all : outside
  for (const name of all) {
    if ((PLACEHOLDERS as readonly string[]).includes(name)) continue
    faults.push(`request has the unknown placeholder {${name}}; use {${PLACEHOLDERS.join('}, {')}}`)
  }
  if (!CONTACT.some((name) => sent.has(name))) {
    faults.push('request must send the contact; use {contact}, {digits}, {contacts} or {lines}')
  }
  if (method === 'GET' && (body !== undefined || multipart !== undefined)) {
    const name = body === undefined ? 'multipart' : 'body'
    faults.push(`request.${name} needs the method POST or PUT`)
  }
  if (body !== undefined && multipart !== undefined) {
    faults.push('request has body and multipart; give one of them')
  }
  if (outside.has('rows') !== (row !== undefined)) {
    faults.push('request.row describes what {rows} in request.body lists; give both or none')
  }
  const byRow = response.match?.row !== undefined || response.match?.key === 'row'
  if (byRow && !sent.has('row') && !sent.has('rowNumber')) {
    faults.push('response.match needs request to send {row} or {rowNumber}')
  }
  const alone = ['contact', 'digits', 'row', 'rowNumber'].filter((name) => outside.has(name))
  if (maxRows > 1 && alone.length > 0) {
    faults.push(`request sends one row with {${alone.join('}, {')}}, but maxRows is greater than 1`)
  }
  return faults
}

function batchFaults ({ maxRows = 1, response: { rows, match } }: HttpVendor): readonly string[] {
  const faults: string[] = []
  const ways = match === undefined ? [''] : [match.row, match.contact, match.key]
  if (ways.every((way) => way === undefined)) {
    faults.push('response.match must name row, contact or key')
  }
  if (maxRows > 1 && match === undefined) {
    faults.push('response.match must name how answers are matched to rows')
  }
  if (maxRows > 1 && rows === undefined) {
    faults.push('response.rows must point at the rows of an answer')
  }
  if (match === undefined && rows !== undefined) {
    faults.push('response.rows needs response.match')
  }
  return faults
}

function fieldFaults ({ services, response: { fields = {} } }: HttpVendor): readonly string[] {
  return Object.entries(fields).flatMap(([column, { values = {} }]) => {
    const reader = VENDOR_COLUMNS[column]
    if (!Object.hasOwn(VENDOR_COLUMNS, column) || reader === undefined) {
      const known = Object.keys(VENDOR_COLUMNS).join(', ')
      return [`response.fields has the unknown ${column}; use ${known}`]
    }
    const isInResults = services.some((service) => columnsOf(service).includes(column))
    const isInvalid = Object.values(values).some((value) => reader(value, []) === undefined)
    return [
      ...(isInResults
        ? []
        : [
        `response.fields has ${column}, which the results of its services do not have`,
          ]),
      ...(isInvalid ? [`response.fields.${column} has values that are not valid there`] : []),
    ]
  })
}

function serviceFaults ({ services, request, response }: HttpVendor): readonly string[] {
  const own = services.filter((service) => needsColumn(service))
  return [
    ...own.filter((service) => response.fields?.[service] === undefined)
      .map((service) => `response.fields must fill the column ${service} of that service`),
    ...Object.keys(request?.services ?? {})
      .filter((slug) => !(services as readonly string[]).includes(slug))
      .map((slug) => `request.services has ${slug}, which is not in services`),
  ]
}

function needsColumn (service: ServiceSlug): boolean {
  return (SERVICES[service].columns as readonly string[]).includes(service)
}

/** A messenger's verdict is about the registration, so `valid` means that people can be reached. */
function verdictFaults ({ response: { verdict } }: HttpVendor): readonly string[] {
  return Object.values(verdict.values)
    .filter(({ status, reason }) => reason === 'not_registered' && status !== 'invalid')
    .map(({ status }) => 'response.verdict.values has the reason not_registered with the status ' +
      `${status}; use the status invalid`)
}

function errorFaults ({ errors }: HttpVendor): readonly string[] {
  return Object.keys(errors?.statuses ?? {})
    .filter((status) => !/^[1-5](?:\d\d|xx)$/.test(status))
    .map((status) => `errors.statuses has ${status}; use a status such as 429 or 5xx for ` +
      `one of ${PROVIDER_FAILURES.join(', ')}`)
}

/** The contradictions of a vendor that takes batches, and what only such a vendor may have. */
function taskFaults (vendor: HttpVendor): readonly string[] {
  const { batch, request, url, response } = vendor
  const inSubmit = placeholdersOf([url, request])
  const faults = inSubmit.has('task')
    ? ['request has {task}, which is known after it; use {reference}']
    : []
  if (batch === undefined) {
    return inSubmit.has('reference') ? [...faults, 'request has {reference} without batch'] : faults
  }
  const { find, status, result, idempotent } = batch
  if (response.match?.contact === undefined && response.match?.key !== 'contact') {
    faults.push('batch needs response.match with contact, or the key contact')
  }
  if (response.match?.row !== undefined || response.match?.key === 'row') {
    faults.push('batch matches answers by contact; remove row from response.match')
  }
  if ((idempotent === true || find !== undefined) && !inSubmit.has('reference')) {
    faults.push('batch.find and batch.idempotent need request to send {reference}')
  }
  if (result !== undefined && (result.url === undefined) === (result.link === undefined)) {
    faults.push('batch.result needs url or link, and not both')
  }
  if (!Object.values(status.values).includes('ended')) {
    faults.push('batch.status.values must say which value is ended')
  }
  const calls = { status, find, result: result?.url === undefined ? undefined : result }
  for (const [name, call] of Object.entries(calls)) {
    if (call === undefined) continue
    const used = placeholdersOf(call)
    if (name !== 'find' && !used.has('task')) faults.push(`batch.${name} must send {task}`)
    const far = [...used].filter((one) => !['task', 'reference', 'service'].includes(one))
    if (far.length > 0) {
      faults.push(`batch.${name} has {${far.join('}, {')}}; use {task}, {reference} or {service}`)
    }
    faults.push(...addressFaults(call.url ?? '').map((fault) => `batch.${name}: ${fault}`))
  }
  return faults
}
