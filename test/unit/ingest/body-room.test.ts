import { connect, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyInstance } from 'fastify'
import { afterEach, describe, expect, it } from 'vitest'
import { createApp } from '../../../services/ingest/app.ts'
import { createBodyBudget } from '../../../services/ingest/body-budget.ts'
import { takeRoom } from '../../../services/ingest/body-room.ts'
import type { Parts } from '../../../services/ingest/ports.ts'
import { doubles, good, rules } from './doubles.ts'

let app: FastifyInstance | undefined
const sockets: Socket[] = []
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await app?.close()
})

const LARGE = 200_000
const body = JSON.stringify(good)
const HEAD = ['POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer live',
  'content-type: application/json'].join('\r\n')
const lengthOf = (bytes: number) => `${HEAD}\r\ncontent-length: ${bytes}\r\n\r\n`
const CHUNKED = `${HEAD}\r\ntransfer-encoding: chunked\r\n\r\n`
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** Room for one large body; 100 ms of grace, then 64 KiB/s. */
async function listen (more: Partial<Parts> = {}) {
  const bodyPace = { graceMs: 100, bytesPerSecond: 65_536, wholeWithinMs: 60_000 }
  app = createApp({ parts: doubles(more), rules: { ...rules, bodyPace, bodyBudgetBytes: LARGE } })
  const port = Number(new URL(await app.listen({ port: 0, host: '127.0.0.1' })).port)
  return (text: string) => open(port, text)
}

function open (port: number, text: string) {
  const socket = connect(port, '127.0.0.1')
  sockets.push(socket)
  let heard = ''
  socket.on('data', data => { heard += data.toString() })
  socket.on('error', () => {})
  socket.write(text)
  // A connection that is reset is closed as well.
  const heardOf = (event: string) => new Promise<void>(resolve => socket.once(event, resolve))
  const first = heardOf('data')
  const closed = heardOf('close')
  return {
    socket,
    /** Status of the first answer. */
    status: async () => { await first; return Number(heard.split(' ')[1]) },
    /** All that came until the connection was closed. */
    whole: async () => { await closed; return heard },
  }
}

/** Writes the same again every 20 ms, as often as is said. */
async function drip (socket: Socket, piece: string, times = Infinity): Promise<void> {
  for (let time = 0; time < times && !socket.destroyed; time++) {
    socket.write(piece)
    await delay(20)
  }
}

describe('a client that drips the body it holds room for', () => {
  it('is answered 408 and cut off, and others have the room at once', async () => {
    const request = await listen()
    const slow = request(`${lengthOf(LARGE)}{`)
    drip(slow.socket, 'x').catch(() => {})
    expect(await request(lengthOf(LARGE)).status()).toBe(503)
    expect(await slow.status()).toBe(408)
    expect(await request(lengthOf(LARGE) + body.padEnd(LARGE)).status()).toBe(202)
    const text = await slow.whole()
    expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[^]*connection: close\r\n/i)
    expect(text).toContain('"code":"request_timeout"')
    expect(text.match(/^HTTP/gm)).toHaveLength(1)
  })

  it('in chunks is so too, and no job comes of what it sent', async () => {
    const request = await listen()
    const slow = request(CHUNKED + chunk(body.padEnd(90_000)))
    drip(slow.socket, chunk(' ')).catch(() => {})
    expect(await slow.status()).toBe(408)
    slow.socket.write('0\r\n\r\n')
    expect(await request(lengthOf(LARGE) + body.padEnd(LARGE)).status()).toBe(202)
    expect((await slow.whole()).match(/^HTTP/gm)).toHaveLength(1)
  })

  it('behind another request on its connection is cut off without an answer', async () => {
    const held = Promise.withResolvers<void>()
    const request = await listen({
      submit: async () => { await held.promise; return { kind: 'reused' } },
    })
    const slow = request(lengthOf(body.length) + body + lengthOf(LARGE))
    drip(slow.socket, 'x').catch(() => {})
    expect(await slow.whole()).toBe('')
    held.resolve()
  })
})

describe('a client that is slow because its line is', () => {
  it('is heard to the end of a small body, of stated length or in chunks', async () => {
    const request = await listen()
    const [stated, chunked] = [request(lengthOf(body.length + 20)), request(CHUNKED)]
    // Far beyond the grace, and while somebody else holds all the room there is.
    request(lengthOf(LARGE) + body)
    await Promise.all([drip(stated.socket, ' ', 20), drip(chunked.socket, chunk(' '), 20)])
    stated.socket.write(body)
    chunked.socket.write(`${chunk(body)}0\r\n\r\n`)
    expect(await Promise.all([stated.status(), chunked.status()])).toEqual([202, 202])
  })

  it('may send a large one as fast as is asked for', async () => {
    const request = await listen()
    const slow = request(lengthOf(body.length + LARGE / 2) + body)
    await drip(slow.socket, ' '.repeat(LARGE / 2 / 25), 25)
    expect(await slow.status()).toBe(202)
  })
})

describe('a body in chunks', () => {
  it('takes room as it comes, and is refused when there is no more', async () => {
    const request = await listen()
    const first = request(`${CHUNKED}${chunk(body.padEnd(90_000))}`)
    const second = request(`${CHUNKED}${chunk(body.padEnd(60_000))}`)
    await delay(50)
    second.socket.write(chunk(' '.repeat(40_000)))
    expect(await second.status()).toBe(503)
    expect(await second.whole()).toMatch(/^retry-after: 2\r$/im)
    first.socket.write('0\r\n\r\n')
    expect(await first.status()).toBe(202)
  })
})

it('room for a body is asked for before it is read', () => {
  const pace = { graceMs: 100, bytesPerSecond: 1, wholeWithinMs: 1_000 }
  expect(Object.keys(takeRoom(createBodyBudget(LARGE), pace))).toEqual(['onRequest', 'preParsing'])
})
