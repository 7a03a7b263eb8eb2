import type { FastifyRequest } from 'fastify'
import { once } from 'node:events'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createSecureServer } from 'node:https'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { PassThrough } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { connect as connectSecure, type ConnectionOptions } from 'node:tls'
import { brotliCompressSync, gzipSync } from 'node:zlib'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { selfSigned } from '../../../../deploy/local/certificate.ts'
import {
  CONNECTION_DEFAULTS, nodeLimits,
} from '../../../../services/runtime/platform/http-server.ts'
import { FairPool } from '../../../../services/runtime/platform/limits.ts'
import { parseNetworks } from '../../../../services/runtime/platform/networks.ts'
import {
  BodyGuard, guardConnections, readBody,
} from '../../../../services/runtime/platform/peer-guards.ts'

const servers: Server[] = []
const sockets: Socket[] = []
afterEach(() => {
  vi.useRealTimers()
  for (const socket of sockets.splice(0)) socket.destroy()
  for (const server of servers.splice(0)) server.close()
})

type Options = Partial<typeof CONNECTION_DEFAULTS> & {
  readonly proxies?: readonly string[]
  readonly isSecure?: boolean
}

async function listen (
  handler: RequestListener, { proxies = [], isSecure = false, ...more }: Options = {}
) {
  const settings = { ...CONNECTION_DEFAULTS, ...more }
  const server: Server = isSecure
    ? createSecureServer({ ...nodeLimits(settings), ...selfSigned('test') }, handler)
    : createServer(nodeLimits(settings), handler)
  servers.push(server)
  guardConnections(server, settings, parseNetworks(proxies))
  await new Promise<void>(resolve => { server.listen(0, '127.0.0.1', resolve) })
  const { port } = server.address() as AddressInfo
  return (localAddress = '127.0.0.1') => {
    const address = { port, host: '127.0.0.1', localAddress }
    const socket = isSecure
      ? connectSecure({ ...address, rejectUnauthorized: false } as ConnectionOptions)
      : connect(address)
    sockets.push(socket.on('error', () => {}))
    return socket
  }
}

const get = (path: string | number) => `GET /${path} HTTP/1.1\r\nhost: x\r\n\r\n`
const gets = (count: number) => Array.from({ length: count }, (_, at) => get(at)).join('')

async function until (holds: () => boolean): Promise<void> {
  while (!holds()) await turn()
}

describe('the requests of a connection', () => {
  it('are handled one after another, in order', async () => {
    const seen: string[] = []
    let [running, most] = [0, 0]
    const open = await listen(async ({ url = '' }, response) => {
      seen.push(url)
      most = Math.max(most, ++running)
      await turn()
      running -= 1
      response.end(url)
    })
    const socket = open()
    let text = ''
    socket.on('data', data => { text += data.toString() })
    socket.write(gets(1_000))
    await until(() => text.endsWith('/999'))
    expect([most, seen.length]).toEqual([1, 1_000])
    expect(text.match(/\/\d+(?=HTTP|$)/g)).toEqual(seen)
    socket.write(get('again'))
    await until(() => text.endsWith('/again'))
  })

  it('end with it', async () => {
    let handled = 0
    const answers: (() => void)[] = []
    const open = await listen((_request, response) => {
      handled += 1
      answers.push(() => response.end('x'))
    })
    const socket = open()
    socket.write(gets(500))
    await until(() => handled === 1)
    socket.resetAndDestroy()
    answers[0]?.()
    const other = open()
    other.write(get('other'))
    await until(() => answers.length > 1)
    answers[1]?.()
    await once(other, 'data')
    expect(handled).toBe(2)
  })

  it('that were sent behind one whose answer closes it are not handled', async () => {
    let handled = 0
    const open = await listen((_request, response) => {
      handled += 1
      response.setHeader('connection', 'close').end()
    })
    const socket = open()
    socket.resume().write(gets(100))
    await once(socket, 'close')
    expect(handled).toBe(1)
  })

  it('with bodies are read as they are handled', async () => {
    const bodies: number[] = []
    const open = await listen(async (request, response) => {
      let bytes = 0
      for await (const piece of request) bytes += (piece as Buffer).length
      bodies.push(bytes)
      response.end()
    })
    const socket = open()
    const post = (bytes: number) =>
      `POST / HTTP/1.1\r\nhost: x\r\ncontent-length: ${bytes}\r\n\r\n${'x'.repeat(bytes)}`
    const sizes = [10, 200_000, 0, 500_000, 5, 5, 5, 5, 5, 300_000]
    socket.resume().write(sizes.map(post).join(''))
    await until(() => bodies.length === sizes.length)
    expect(bodies).toEqual(sizes)
  })

  it('take turns with those of other clients', async () => {
    const seen: string[] = []
    const open = await listen(({ url = '' }, response) => {
      seen.push(url)
      response.end()
    })
    const [greedy, modest] = [open('127.0.0.2'), open('127.0.0.3')]
    await Promise.all([once(greedy, 'connect'), once(modest, 'connect')])
    greedy.resume().write(get('greedy').repeat(1_000))
    modest.resume().write(get('modest').repeat(10))
    await until(() => seen.filter(url => url === '/modest').length === 10)
    expect(seen.filter(url => url === '/greedy').length).toBeLessThan(40)
    await until(() => seen.length === 1_010)
  })

  it('that wait are limited for each client, and not for a proxy', async () => {
    for (const proxies of [[], ['127.0.0.1']]) {
      let handled = 0
      const open = await listen(() => { handled += 1 }, { proxies })
      const clients = Array.from({ length: 4 }, () => open())
      let closed = 0
      for (const [at, client] of clients.entries()) {
        client.on('close', () => { closed += 1 }).write(gets(1_000))
        // One after another, so that it is known which one is above the limit.
        await until(() => handled + closed === at + 1 || closed > 0)
      }
      const last = open()
      last.write(get('last'))
      await until(() => handled === 5 || (closed > 0 && handled === 4))
      expect(closed > 0).toBe(proxies.length === 0)
    }
  })
})

const MEGABYTE = 1_048_576
const BIG = Buffer.alloc(16 * MEGABYTE)

/** A server whose answers do not fit the buffers of the system, and its clock by hand. */
async function listenBig (more: Options = {}) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  let answered = 0
  const open = await listen((_request, response) => {
    answered += 1
    response.end(BIG)
  }, more)
  const request = async (localAddress?: string) => {
    const before = answered
    const socket = open(localAddress)
    let closed = false
    servers.at(-1)?.once('connection', other => other.once('close', () => { closed = true }))
    socket.pause().write(get('big'))
    await until(() => answered > before)
    await turn()
    return { socket, isClosed: () => closed }
  }
  return request
}

describe.each([false, true])('an answer (with TLS: %s)', isSecure => {
  it('that is not read is closed', async () => {
    const request = await listenBig({ isSecure })
    const { isClosed } = await request()
    vi.advanceTimersByTime(30_000)
    expect(isClosed()).toBe(false)
    vi.advanceTimersByTime(1_000)
    await until(isClosed)
  })

  it('that is read slowly goes on', async () => {
    const request = await listenBig({ isSecure })
    const { socket, isClosed } = await request()
    let received = 0
    socket.on('data', ({ length }) => { received += length })
    for (let window = 0; window < 4; window++) {
      const before = received
      socket.resume()
      await until(() => received > before + 3 * MEGABYTE || received >= BIG.length)
      socket.pause()
      vi.advanceTimersByTime(29_500)
      await turn()
    }
    expect(isClosed()).toBe(false)
  })

  it('is closed when an address or all have too many unread bytes, the largest first', async () => {
    const request = await listenBig({
      isSecure,
      MAX_UNREAD_BYTES_PER_ADDRESS: 20 * MEGABYTE,
      MAX_UNREAD_BYTES: 40 * MEGABYTE,
    })
    const first = await request('127.0.0.2')
    vi.advanceTimersByTime(500)
    expect(first.isClosed()).toBe(false)
    const second = await request('127.0.0.2')
    const other = await request('127.0.0.3')
    vi.advanceTimersByTime(500)
    await until(() => first.isClosed() || second.isClosed())
    expect([first, second, other].filter(({ isClosed }) => isClosed())).toHaveLength(1)
    const more = await request('127.0.0.4')
    vi.advanceTimersByTime(500)
    const all = [first, second, other, more]
    await until(() => all.filter(({ isClosed }) => isClosed()).length === 2)
  })
})

const MINIMUM = { graceMs: 5_000, bytesPerSecond: 16_384, completeWithinMs: 60_000 }

/** A body that arrives, with the reasons for which the guard ended it, and its clock by hand. */
function openBody (length: number | undefined, pool = new FairPool({ capacity: 64 * MEGABYTE })) {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  const ended: string[] = []
  const guard = new BodyGuard({
    pool, minimum: MINIMUM, maxBytes: 34 * MEGABYTE, end: (_request, why) => { ended.push(why) },
  })
  const headers = length === undefined ? {} : { 'content-length': String(length) }
  const request = { headers } as FastifyRequest
  const memory = guard.open(request, 'org_1')
  const body = new PassThrough()
  guard.watch(request, body)
  body.resume()
  const send = async (bytes: number) => {
    if (bytes > 0) body.write(Buffer.alloc(bytes))
    await new Promise(resolve => setImmediate(resolve))
  }
  return { guard, request, memory, body, ended, send }
}

it.each([
  ['no byte within the grace period', 0, 5_000, 100_000, false],
  ['no byte after the grace period', 0, 5_500, 100_000, true],
  ['exactly the minimum', 16_384, 6_000, 100_000, false],
  ['a byte less than the minimum', 16_383, 6_000, 100_000, true],
  ['the minimum for 20 s', 16_384 * 20, 25_000, MEGABYTE / 2, false],
  ['a body that stalls', 70_000, 10_000, 100_000, true],
  ['a body that is slow at first', 900_000, 10_000, MEGABYTE, false],
  ['a large body at the minimum of a small one', 16_384, 6_000, 6 * MEGABYTE, true],
  ['a large body that ends in time', Math.ceil(6 * MEGABYTE / 60), 6_000, 6 * MEGABYTE, false],
  ['a chunked body at the minimum', 81_920, 10_000, undefined, false],
  ['a chunked body a byte below', 81_919, 10_000, undefined, true],
  ['a small body', 1, 60_000, 65_536, false],
  ['a small chunked body', 65_536, 60_000, undefined, false],
])('a body below the minimum throughput ' +
  'is ended, others are not: %s', async (_what, bytes, elapsedMs, length, isSlow) => {
  const { memory, ended, send } = openBody(length)
  await send(bytes)
  vi.advanceTimersByTime(elapsedMs)
  expect(ended).toEqual(isSlow ? ['slow'] : [])
  expect(memory.amount > 0).toBe(!isSlow && bytes > 65_536)
})

describe('the memory of a body', () => {
  it('is reserved ahead of what has arrived, up to its length, until the response', async () => {
    const { guard, request, memory, send } = openBody(400_000)
    await send(65_536)
    expect(memory.amount).toBe(0)
    await send(1)
    expect(memory.amount).toBe(65_537 + 262_144)
    await send(300_000)
    expect(memory.amount).toBe(400_000)
    guard.release(request)
    expect(memory.amount).toBe(0)
    expect(vi.getTimerCount()).toBe(0)
  })

  it('is what has arrived if there is no more, and the body is ended beyond it', async () => {
    const { memory, ended, body, send } = openBody(undefined, new FairPool({ capacity: 100_000 }))
    const other = openBody(undefined, new FairPool({ capacity: 1 }))
    await send(90_000)
    // The only reservation may be larger than the capacity.
    expect(memory.amount).toBe(90_000 + 262_144)
    await other.send(90_000)
    expect(other.ended).toEqual([])
    expect([ended, body.isPaused()]).toEqual([[], false])
  })

  it('is taken by a name with less, unless the body is complete', async () => {
    const pool = new FairPool({ capacity: 400_000 })
    const { memory, ended, body, send } = openBody(400_000, pool)
    await send(100_000)
    expect(pool.open('org_2').grow(100_000)).toBe(true)
    expect([memory.amount, ended, body.isPaused()]).toEqual([0, ['no memory'], true])
    const complete = openBody(400_000, new FairPool({ capacity: 400_000 }))
    await complete.send(400_000)
    complete.body.end()
    await complete.send(0)
    expect(complete.memory.isEvictable).toBe(false)
  })

  it('is released at once on request, and then nothing is counted', async () => {
    const { guard, request, memory, ended, send } = openBody(400_000)
    await send(100_000)
    guard.release(request)
    await send(100_000)
    vi.advanceTimersByTime(60_000)
    expect([memory.amount, ended]).toEqual([0, []])
  })
})

/** A response of these pieces; `sent` counts those that were asked for. */
function responseOf (count: number, piece: (index: number) => Uint8Array) {
  const state = { sent: 0, isCancelled: false }
  const body = new ReadableStream<Uint8Array>({
    pull: controller => {
      if (state.sent === count) controller.close()
      else controller.enqueue(piece(state.sent++))
    },
    cancel: () => { state.isCancelled = true },
  })
  return { response: new Response(body), state }
}

describe('the body of a response', () => {
  it('is read whole, in one piece or many', async () => {
    const { response } = responseOf(300, index => Buffer.alloc(100, index))
    const body = await readBody(response, 30_000)
    expect(body?.equals(Buffer.concat(
      Array.from({ length: 300 }, (_, index) => Buffer.alloc(100, index))))).toBe(true)
    expect(String(await readBody(new Response('all'), 3))).toBe('all')
    expect(String(await readBody(new Response(null), 3))).toBe('')
  })

  it('is not read beyond its limit', async () => {
    const { response, state } = responseOf(1_000, () => Buffer.alloc(100))
    expect(await readBody(response, 1_000)).toBeUndefined()
    expect([state.sent < 20, state.isCancelled]).toEqual([true, true])
  })

  it.each([
    ['gzip', gzipSync], ['br', brotliCompressSync],
  ] as const)('that is compressed by %s is not read beyond its limit', async (coding, compress) => {
    const bytes = compress(',\n'.repeat(1_000_000))
    const server = createServer((_request, response) => {
      response.writeHead(200, { 'content-encoding': coding }).end(bytes)
    })
    servers.push(server)
    await once(server.listen(0, '127.0.0.1'), 'listening')
    const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    expect(await readBody(await fetch(url), 1_999_999)).toBeUndefined()
    expect((await readBody(await fetch(url), 2_000_000))?.length).toBe(2_000_000)
  })

  it('is not read in more than 20,000 pieces, which take little more than its bytes', async () => {
    const few = await readBody(responseOf(20_000, () => Buffer.alloc(1)).response, 50_000)
    expect([few?.length, few?.buffer.byteLength]).toEqual([20_000, 32_768])
    const { response, state } = responseOf(30_000, () => Buffer.alloc(1))
    expect(await readBody(response, 50_000)).toBeUndefined()
    expect(state.isCancelled).toBe(true)
  })

  it('rejects if it is cut off', async () => {
    const { response } = responseOf(10, index => {
      if (index === 5) throw new Error('connection lost')
      return Buffer.alloc(1)
    })
    await expect(readBody(response, 100)).rejects.toThrow('connection lost')
  })
})
