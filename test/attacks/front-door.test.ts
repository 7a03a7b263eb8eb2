import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { afterAll, describe, expect, it } from 'vitest'
import { createAccessCopy } from '../../services/accounts/access-log/copy.ts'
import { Clickhouse } from '../../services/runtime/platform/clickhouse.ts'
import { residentMbOf, usageOf } from '../bench/usage.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { eventually } from '../support/eventually.ts'
import { lowestCost } from '../support/lowest-cost.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { recordMacOf } from '../support/keys/signed.ts'

/** Each attack comes from an address of its own; customers are at 127.0.0.1. */
const READ_WITHIN_MS = 3_000

const environment = closeAfterAll(await startEnvironment({
  READ_WITHIN_MS: String(READ_WITHIN_MS),
  // Hardly anything flows in while a test runs.
  LIMIT_PUBLIC_SECONDS: '100000',
  // An attack is judged by the limit of its address, whatever came before it.
  LIMIT_PUBLIC_ALL: '1000000',
  // A fast machine asks more than 200 times a second.
  LIMIT_GET: '100000',
  // Only what reads its answers too slowly is closed while a test runs.
  CONNECTION_TIMEOUT_MS: '3600000',
}, { stages: ['ingest'] }))
const customer = await createOrganizationWith(environment.env, { availableMicros: 1_000_000_000 })
const sockets: Socket[] = []
afterAll(() => { for (const socket of sockets) socket.destroy() })

/** Connections from one address, once they are open. */
async function open (localAddress: string, count: number): Promise<readonly Socket[]> {
  const { hostname, port } = new URL(environment.baseUrl)
  const opened = Array.from({ length: count }, () =>
    connect({ host: hostname, port: Number(port), localAddress }).on('error', () => {}))
  sockets.push(...opened)
  await Promise.all(opened.map(socket => once(socket, 'connect')))
  return opened
}

/** Waits until the service has closed a connection. */
const untilClosed = async (socket: Socket | undefined) =>
  await eventually(() => expect(socket?.closed).toBe(true))

/** The process under attack. */
function ingestPid (): number {
  const pid = environment.services.list().find(({ name }) => name.startsWith('ingest-'))?.pid
  if (pid === undefined) throw new Error('ingest does not run')
  return pid
}
const cpuSeconds = () => usageOf(ingestPid()).cpuSeconds

/** The CPU time of the process under attack while something happens. */
async function cpuOf (action: () => Promise<unknown>): Promise<number> {
  const before = cpuSeconds()
  await action()
  return cpuSeconds() - before
}

const balance = async () => {
  const headers = { authorization: `Bearer ${customer.keys.live}` }
  const response = await fetch(`${environment.baseUrl}/balance`, { headers })
  await response.arrayBuffer()
  return response.status
}

/** CPU time of so many requests of a customer, one after another. */
async function cpuOfRequests (count: number): Promise<number> {
  for (let warm = 0; warm < 50; warm++) await balance()
  const sample = 100
  const used = await cpuOf(async () => {
    for (let sent = 0; sent < sample; sent++) expect(await balance()).toBe(200)
  })
  return Math.max(used, 0.01) * count / sample
}

const requestFor = (path: string, method = 'GET', more = '') =>
  `${method} ${path} HTTP/1.1\r\nhost: x\r\n${more}\r\n`

type Answer = {
  readonly status: number
  readonly headers: Readonly<Record<string, unknown>>
  readonly text: string
}

/** Asks from an address of this machine. */
async function ask (
  path: string, { localAddress = '127.0.0.1', headers = {} }: {
    readonly localAddress?: string, readonly headers?: Record<string, string>
  } = {}
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>()
  request(new URL(path, environment.baseUrl), { localAddress, headers }, response => {
    const pieces: Buffer[] = []
    response.on('data', (piece: Buffer) => { pieces.push(piece) })
    response.on('end', () => resolve({
      status: response.statusCode ?? 0,
      headers: response.headers,
      text: String(Buffer.concat(pieces)),
    }))
  }).on('error', reject).end()
  return await promise
}

describe('requests without a key', () => {
  it.each([
    ['/openapi.json', 'GET', ''], ['/docs', 'GET', ''], ['/docs', 'HEAD', ''],
    ['/changelog', 'GET', 'accept-encoding: br\r\n'], ['/nothing', 'GET', ''],
    ['/api/v1/jobs', 'GET', 'authorization: Bearer wrong\r\n'], ['/%zz', 'GET', ''],
  ])('that pipeline %s a thousand times cost less than with a key, and less if they leave',
    async (path, method, more) => {
      const allowed = await cpuOfRequests(1_000)
      const pipeline = async (host: string, leave: (socket: Socket) => unknown) =>
        await cpuOf(async () => {
          const [socket] = await open(host, 1)
          socket?.on('data', () => {}).write(requestFor(path, method, more).repeat(1_000))
          await once(socket!, 'data')
          leave(socket!)
          await untilClosed(socket)
          expect(await balance()).toBe(200)
        })
      // Every round has an address of its own, within its limit.
      const at = 1 + path.length + method.length + more.length
      const read = await lowestCost(async round =>
        await pipeline(`127.1.${round}.${at}`, socket => socket.end()), allowed)
      const left = await lowestCost(async round =>
        await pipeline(`127.2.${round}.${at}`, socket => socket.resetAndDestroy()), allowed / 5)
      expect(read).toBeLessThanOrEqual(allowed)
      expect(left).toBeLessThanOrEqual(allowed / 5)
    })

  it('from 900 connections, 30 on each, leave another client its turn', async () => {
    const allowed = await cpuOfRequests(2_000)
    const waited = await lowestCost(async round => {
      const attackers = await open(`127.3.0.${1 + round}`, 900)
      for (const socket of attackers) {
        socket.resume().write(requestFor('/openapi.json').repeat(30))
      }
      // What the process does until this answer is there, however busy the machine is.
      const cost = await cpuOf(async () => expect(await balance()).toBe(200))
      for (const socket of attackers) socket.destroy()
      return cost
    }, allowed)
    expect(waited).toBeLessThanOrEqual(allowed)
  })

  it('above the limit of an address get 429, and customers behind it are served', async () => {
    const [socket] = await open('127.0.0.3', 1)
    let text = ''
    socket?.on('data', data => { text = (text + String(data)).slice(-10_000) })
    socket?.write(requestFor('/nothing').repeat(1_500))
    await eventually(() => expect(text).toContain('"not_found"'))
    // The rest is not answered: the connection is closed with the first refusal.
    socket?.write(requestFor('/nothing').repeat(1_000))
    await untilClosed(socket)
    expect(text).toMatch(/HTTP\/1\.1 429 [^]*retry-after: [1-9]\d*\r\n[^]*"code":"rate_limited"/i)
    const refused = await ask('/docs', { localAddress: '127.0.0.3' })
    const headers = { authorization: `Bearer ${customer.keys.live}` }
    const served = await ask('/api/v1/balance', { localAddress: '127.0.0.3', headers })
    const wrong = { authorization: 'Bearer wrong' }
    const guessed = await ask('/api/v1/balance', { localAddress: '127.0.0.3', headers: wrong })
    expect([refused, served, guessed, await ask('/docs')].map(({ status }) => status))
      .toEqual([429, 200, 429, 200])
  })

  it('whose answers are not read take little memory, and lose their connections', async () => {
    const before = residentMbOf(ingestPid())
    const attackers = (await Promise.all([
      open('127.0.0.4', 450), open('127.0.0.5', 450),
    ])).flat()
    for (const socket of attackers) {
      socket.pause().write(requestFor('/docs').repeat(30))
    }
    expect(await balance()).toBe(200)
    expect(residentMbOf(ingestPid()) - before).toBeLessThan(200)
    // Those that still have an answer to read; others were refused, which closed them.
    await eventually(() => expect(connectionsFrom('127.0.0.4', '127.0.0.5')).toBe(0))
    for (const socket of attackers) socket.destroy()
  })

  it('within the limits, whose answers exceed what the system buffers, lose their connections',
    async () => {
      const attackers = await open('127.0.0.7', 4)
      for (const socket of attackers) socket.pause().write(requestFor('/docs').repeat(80))
      await eventually(() => expect(connectionsFrom('127.0.0.7')).toBe(0))
      expect((await ask('/docs', { localAddress: '127.0.0.7' })).status).toBe(200)
    })
})

/** The open connections of the service from these addresses, as the system lists them. */
function connectionsFrom (...addresses: readonly string[]): number {
  const port = Number(new URL(environment.baseUrl).port).toString(16).toUpperCase().padStart(4, '0')
  const remote = new Set(addresses.map(address => Buffer.from(address.split('.').map(Number))
    .reverse().toString('hex').toUpperCase()))
  const ESTABLISHED = '01'
  return readFileSync('/proc/net/tcp', 'utf8').split('\n').slice(1)
    .map(line => line.trim().split(/\s+/))
    .filter(([, local = '', peer = '', state]) => state === ESTABLISHED &&
      local.endsWith(`:${port}`) && remote.has(peer.split(':')[0] ?? '')).length
}

describe('bodies of a test key', () => {
  // Read whole and then refused, so that no stage takes part.
  const BODY = JSON.stringify({
    service: 'phone-validation',
    countryCode: 'XX',
    inputs: Array.from({ length: 10_000 }, (_, row) => `+12127${String(row).padStart(6, '0')}`),
  })
  const send = async () => {
    const response = await fetch(`${environment.baseUrl}/jobs`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${customer.keys.live}`, 'content-type': 'application/json',
      },
      body: BODY,
    })
    return [response.status, (await response.json() as { error: { param: string } }).error.param]
  }
  const sendInTurn = async (count: number) => {
    const answers: unknown[] = []
    for (let sent = 0; sent < count; sent++) answers.push(await send())
    return answers
  }
  const head = (length: string) => [
    'POST /api/v1/jobs HTTP/1.1', 'host: x', `authorization: Bearer ${environment.keys.test}`,
    'content-type: application/json', length, '', '',
  ].join('\r\n')

  it.each([
    ['are only announced', 'content-length: 34000000', ''],
    ['are chunked and never come', 'transfer-encoding: chunked', ''],
    ['come in part', 'content-length: 34000000', ' '.repeat(9_000_000)],
    ['come in part, chunked', 'transfer-encoding: chunked',
      `895440\r\n${' '.repeat(9_000_000)}\r\n`],
  ])('that %s refuse no body of another customer', async (_how, length, begin) => {
    const attackers = await open('127.0.0.6', 20)
    for (const socket of attackers) socket.resume().write(head(length) + begin)
    expect(await sendInTurn(10)).toEqual(Array(10).fill([400, 'countryCode']))
    for (const socket of attackers) socket.destroy()
  })
})

it('a key that asks for unknown jobs leaves one refusal a minute in the access log', async () => {
  const { env, orgId, keys } = environment
  const headers = { authorization: `Bearer ${keys.live}` }
  const unknown = (at: number) => `job_0${String(at).padStart(25, '0')}`
  for (let at = 0; at < 150; at++) {
    const { status } = await ask(`/api/v1/jobs/${unknown(at)}/results`, { headers })
    expect(status).toBe(404)
  }
  // An entry after all of these.
  await fetch(`${environment.baseUrl}/jobs/${unknown(0)}/cancel`, { method: 'POST', headers })
  const clickhouse = new Clickhouse(env['CLICKHOUSE_URL'] ?? '')
  try {
    const copy = createAccessCopy(clickhouse, recordMacOf(env))
    const entries = await eventually(async () => {
      const found = await copy.newest({ organization: orgId, limit: 1_000 })
      expect(found[0]).toMatchObject({ action: 'job.cancelled', outcome: 'refused' })
      return found
    })
    const downloads = entries.filter(({ action }) => action === 'results.downloaded')
    // A handler that takes long is shipped before it can be withdrawn.
    expect(downloads.length).toBeLessThan(15)
    expect(downloads.at(-1)).toMatchObject({ outcome: 'refused' })
  } finally {
    await clickhouse.close()
  }
})
