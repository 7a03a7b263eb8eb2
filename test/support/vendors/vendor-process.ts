import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  TASK, TRACE, VENDOR_HOST, VENDOR_KEY, VENDOR_NAME, type VendorMode, type VendorState,
} from './vendor-words.ts'

type Item = { readonly ref: string, readonly number: string }

const state: {
  mode: VendorMode, calls: number, callsAtMs: number[], rows: number, numbers: string[]
} = { mode: 'well', calls: 0, callsAtMs: [], rows: 0, numbers: [] }

const boast = { 'x-served-by': VENDOR_HOST, 'x-zyxoria-trace': TRACE, server: VENDOR_NAME }

function send (response: ServerResponse, status: number, body: unknown): void {
  response.writeHead(status, { ...boast, 'content-type': 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

/** The last digit decides: 9 gets an undocumented word, other odd ones are not registered. */
function resultOf ({ ref, number }: Item) {
  const digit = Number(number.at(-1))
  const word = digit % 2 === 0 ? 'REGISTERED' : 'ABSENT'
  return {
    ref,
    number: `00${number.replace(/\D/g, '')}`,
    state: digit === 9 ? `${VENDOR_NAME}_MYSTERY` : word,
    carrier: digit === 2 ? 'Example Mobile' : `${VENDOR_NAME} Mobile`,
    region: `via ${VENDOR_HOST}`,
    locality: TASK,
    kind: digit === 4 ? TRACE : 'CELL',
    task: TASK,
  }
}

type Result = ReturnType<typeof resultOf>

/** What each mode does to the results of a call. */
const SPOILED: Readonly<Partial<Record<VendorMode, (all: Result[]) => unknown>>> = {
  shuffled: (all) => all.toReversed(),
  short: (all) => all.slice(1),
  long: (all) => [...all, ...all.map((it) =>
    ({ ...it, ref: `9${it.ref}`, number: '0019995550000' }))],
  swapped: (all) => all.map((it, index) => ({ ...it, ref: all[(index + 1) % all.length]?.ref })),
  contradicting: (all) => [...all, ...all.map((it) =>
    ({ ...it, state: it.state === 'ABSENT' ? 'REGISTERED' : 'ABSENT' }))],
  wrong: (all) => all.map((it) => ({ ...it, state: { what: VENDOR_NAME } })),
  none: () => [],
  nulls: (all) => all.map(() => null),
}

/** Modes that answer something else than results, or nothing. */
const REFUSING: Readonly<Partial<Record<VendorMode, (response: ServerResponse) => void>>> = {
  limiting: (response) => {
    response.setHeader('retry-after', 1)
    send(response, 429, { error: `${VENDOR_NAME} quota, see ${VENDOR_HOST}` })
  },
  down: (response) => send(response, 503, `<h1>${VENDOR_HOST} is down</h1>`),
  broken: (response) => send(response, 500, { stack: `at ${VENDOR_NAME}.check (${VENDOR_HOST})` }),
  refusing: (response) => send(response, 422, { error: { code: 'BAD_NUMBER', text: TASK } }),
  garbage: (response) => send(response, 200, `{"results": [${TASK}`),
  erring: (response) => send(response, 200, { error: { code: 'CREDIT', text: VENDOR_NAME } }),
  puzzling: (response) => send(response, 200, { error: { code: 'E_77', text: VENDOR_NAME } }),
  moved: (response) => {
    response.setHeader('location', '/batch')
    send(response, 307, '')
  },
  huge: (response) => send(response, 200, `{"results": ["${'x'.repeat(5_000_000)}"]}`),
  reset: (response) => { response.destroy() },
  hanging: () => {},
  cut: (response) => {
    response.writeHead(200, { ...boast, 'content-length': 1_000 })
    response.write('{"results"', () => response.destroy())
  },
  dripping: (response) => {
    response.writeHead(200, boast)
    const timer = setInterval(() => response.write(' '), 20)
    response.on('close', () => clearInterval(timer))
  },
}

async function answer (request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = new URL(request.url ?? '/', 'http://vendor')
  if (url.pathname === '/control') return await control(request, response)
  const { mode } = state
  const single = url.pathname === '/single'
  const body = single ? undefined : await json(request) as { items: readonly Item[] }
  const requested = body?.items ?? [{ ref: '', number: url.searchParams.get('number') ?? '' }]
  state.calls++
  state.callsAtMs.push(Date.now())
  state.rows += requested.length
  state.numbers.push(...requested.map(({ number }) => number))
  if (request.headers['x-key'] !== VENDOR_KEY && url.searchParams.get('key') !== VENDOR_KEY) {
    return send(response, 401, { error: `${VENDOR_NAME} does not know this key` })
  }
  const refuse = REFUSING[mode]
  if (refuse !== undefined) return refuse(response)
  if (mode === 'slow') await sleep(150)
  if (mode === 'half' && state.calls % 2 === 0) return send(response, 503, VENDOR_HOST)
  if (mode === 'recovering' && state.calls === 1) return send(response, 503, VENDOR_HOST)
  const results = requested.map(resultOf)
  if (single) return send(response, 200, { task: TASK, data: results[0] })
  send(response, 200, { task: TASK, results: SPOILED[mode]?.(results) ?? results })
}

async function control (request: IncomingMessage, response: ServerResponse): Promise<void> {
  if (request.method === 'POST') {
    state.mode = (await json(request) as { mode: VendorMode }).mode
    state.calls = state.rows = 0
    state.numbers = []
    state.callsAtMs = []
  }
  const { calls, callsAtMs, rows, numbers } = state
  send(response, 200, { calls, callsAtMs, rows, numbers } satisfies VendorState)
}

const server = createServer((request, response) => {
  answer(request, response).catch(() => response.destroy())
})
process.on('disconnect', () => process.exit(0))
server.listen(0, '127.0.0.1', () => process.send?.((server.address() as AddressInfo).port))
