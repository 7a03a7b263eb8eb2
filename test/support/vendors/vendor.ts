import { fork } from 'node:child_process'
import { once } from 'node:events'
import { endChild } from '../stacks/processes.ts'
import { VENDOR_KEY, VENDOR_NAME, type VendorMode, type VendorState } from './vendor-words.ts'

export type Vendor = Awaited<ReturnType<typeof startVendor>>

/** A vendor of checks as a process of its own, well-behaved by default. */
export async function startVendor () {
  const child = fork(new URL('./vendor-process.ts', import.meta.url), { execArgv: [] })
  const [port] = await once(child, 'message') as [number]
  const url = `http://127.0.0.1:${port}`
  return {
    url,
    behave: async (mode: VendorMode) => {
      await fetch(`${url}/control`, { method: 'POST', body: JSON.stringify({ mode }) })
    },
    state: async () => await (await fetch(`${url}/control`)).json() as VendorState,
    stop: () => endChild(child),
  }
}

const response = {
  verdict: {
    pointer: '/state',
    values: {
      REGISTERED: { status: 'valid', reason: 'registered', confidence: 95 },
      ABSENT: { status: 'invalid', reason: 'not_registered' },
    },
  },
  fields: {
    whatsapp: { pointer: '/state', values: { REGISTERED: 'true', ABSENT: 'false' } },
    telegram: { pointer: '/state', values: { REGISTERED: 'true', ABSENT: 'false' } },
    carrier: { pointer: '/carrier' },
    region: { pointer: '/region' },
    locality: { pointer: '/locality' },
    line_type: { pointer: '/kind', values: { CELL: 'mobile' } },
  },
} as const

const errors = {
  field: { pointer: '/error/code', values: { CREDIT: 'auth', BAD_NUMBER: 'rejected_input' } },
} as const

/** The vendor's interface for many rows a call, as an operator would describe it. */
export function batchDescription (baseUrl: string, more: object = {}) {
  return {
    id: 1,
    name: VENDOR_NAME,
    services: ['whatsapp', 'telegram'],
    url: `${baseUrl}/batch`,
    method: 'POST',
    auth: { kind: 'header', name: 'x-key', value: VENDOR_KEY },
    maxRows: 20,
    request: {
      body: { product: '{service}', items: '{rows}' },
      row: { ref: '{row}', number: '{contact}' },
    },
    response: { ...response, rows: '/results', match: { row: '/ref', contact: '/number' } },
    errors,
    ...more,
  } as const
}

/** The same vendor's interface for one row a call. */
export function singleDescription (baseUrl: string) {
  const data = (pointer: string) => `/data${pointer}`
  const { verdict, fields } = response
  const moved = Object.entries(fields).map(([column, field]) =>
    [column, { ...field, pointer: data(field.pointer) }])
  return {
    id: 2,
    name: VENDOR_NAME,
    services: ['whatsapp', 'telegram'],
    url: `${baseUrl}/single`,
    method: 'GET',
    auth: { kind: 'query', name: 'key', value: VENDOR_KEY },
    request: { query: { number: '{contact}' } },
    response: {
      match: { contact: '/data/number' },
      verdict: { ...verdict, pointer: data(verdict.pointer) },
      fields: Object.fromEntries(moved) as Record<string, { pointer: string }>,
    },
    errors,
  } as const
}
