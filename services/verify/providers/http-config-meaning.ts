import { columnsOf, SERVICES, type ServiceSlug } from '../../records/columns.ts'
import { PROVIDER_FAILURES } from '../provider.ts'
import { VENDOR_COLUMNS } from './http-columns.ts'
import { PLACEHOLDER, PLACEHOLDERS } from './http-request.ts'
import type { HttpVendor } from './http-vendor.ts'

/** What is wrong with a vendor whose description has the right form, in words without any value. */
export function meaningFaults (vendor: HttpVendor): readonly string[] {
  return [
    ...addressFaults(vendor.url), ...requestFaults(vendor), ...batchFaults(vendor),
    ...fieldFaults(vendor), ...serviceFaults(vendor), ...errorFaults(vendor),
  ]
}

const LOOPBACK: ReadonlySet<string> = new Set(['localhost', '127.0.0.1', '[::1]'])

function addressFaults (text: string): readonly string[] {
  const url = URL.parse(text)
  if (url === null) return ['url is no address; write https://host/path']
  const faults: string[] = []
  const here = url.protocol === 'http:' && LOOPBACK.has(url.hostname)
  if (url.protocol !== 'https:' && !here) {
    faults.push('url must begin with https://, as contacts travel there')
  }
  if (url.username !== '' || url.password !== '') {
    faults.push('url must hold no password; use auth of the kind basic')
  }
  return faults
}

/** Every placeholder that the texts of a request hold. */
function placeholdersOf (value: unknown): ReadonlySet<string> {
  const text = JSON.stringify(value) ?? ''
  return new Set([...text.matchAll(PLACEHOLDER)].map(([, name = '']) => name))
}

const CONTACT = ['contact', 'digits', 'contacts']

function requestFaults ({ url, method, request = {}, response, maxRows = 1 }: HttpVendor):
readonly string[] {
  const faults: string[] = []
  const { query, body, row } = request
  const outside = placeholdersOf([url, query, body])
  const all = new Set([...outside, ...placeholdersOf(row)])
  const sent = outside.has('rows') ? all : outside
  for (const name of all) {
    if ((PLACEHOLDERS as readonly string[]).includes(name)) continue
    faults.push(`request has the placeholder {${name}}; there are {${PLACEHOLDERS.join('}, {')}}`)
  }
  if (!CONTACT.some((name) => sent.has(name))) {
    faults.push('request must send the contact; use {contact}, {digits} or {contacts}')
  }
  if (method === 'GET' && body !== undefined) {
    faults.push('request.body needs the method POST or PUT')
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
    faults.push(`request sends one row by {${alone.join('}, {')}}, but maxRows says more`)
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
    faults.push('response.match must tell how the rows of an answer are known')
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
      return [`response.fields has ${column}; there are ${Object.keys(VENDOR_COLUMNS).join(', ')}`]
    }
    const shown = services.some((service) => columnsOf(service).includes(column))
    const strange = Object.values(values).some((value) => reader(value, []) === undefined)
    return [
      ...(shown ? [] : [`response.fields has ${column}, which results of its services have not`]),
      ...(strange ? [`response.fields.${column} has values that the column cannot hold`] : []),
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
      .map((slug) => `request.services has ${slug}, which services does not list`),
  ]
}

function needsColumn (service: ServiceSlug): boolean {
  return (SERVICES[service].columns as readonly string[]).includes(service)
}

function errorFaults ({ errors }: HttpVendor): readonly string[] {
  return Object.keys(errors?.statuses ?? {})
    .filter((status) => !/^[1-5](?:\d\d|xx)$/.test(status))
    .map((status) => `errors.statuses has ${status}; write a status such as 429, or 5xx, for ` +
      `one of ${PROVIDER_FAILURES.join(', ')}`)
}
