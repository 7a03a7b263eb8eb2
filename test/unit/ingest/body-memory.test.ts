import { once } from 'node:events'
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createBodyBudget } from '../../../services/ingest/body.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import { createTestApp, doubles, good, listen, settings, talk } from './doubles.ts'

const sockets: Socket[] = []
/** The service polls received bytes in an interval; sockets use the real time. */
beforeEach(() => { vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }) })
afterEach(() => {
  vi.useRealTimers()
  for (const socket of sockets.splice(0)) socket.destroy()
})

const LARGE = 200_000
/** The grace is 100 ms, and so is the poll interval. */
const PACE = { graceMs: 100, bytesPerSecond: 65_536, completeWithinMs: 60_000 }
const body = JSON.stringify(good)
const HEAD = ['POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer live',
  'content-type: application/json'].join('\r\n')
const lengthOf = (bytes: number) => `${HEAD}\r\ncontent-length: ${bytes}\r\n\r\n`
const CHUNKED = `${HEAD}\r\ntransfer-encoding: chunked\r\n\r\n`
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`

/** Waits without the clock of the test going on, as it does by Vitest's own waiting. */
async function until (holds: () => boolean): Promise<void> {
  while (!holds()) await turn()
}

/** Waits until this many bodies are monitored; the connections are as well. */
const untilWatched = (bodies: number) => until(() => vi.getTimerCount() === bodies + 1)

/** Memory for one large body. */
async function serve (more: Partial<IngestDeps> = {}) {
  const deps = doubles(more)
  const own = { ...settings, bodyThroughput: PACE, bodyBudgetBytes: LARGE }
  const app = createTestApp({ deps, settings: own })
  const port = await listen(app)
  const accepted = new Map<number | undefined, Socket>()
  app.server.on('connection', other => { accepted.set(other.remotePort, other) })
  return (text: string) => open(port, text, accepted)
}

function open (port: number, text: string, accepted: ReadonlyMap<number | undefined, Socket>) {
  const { socket, answer } = talk(port, text)
  sockets.push(socket)
  const first = once(socket, 'data')
  first.catch(() => {})
  return {
    /** Resolves when the service has read all that was sent so far. */
    send: async (more = '') => {
      socket.write(more)
      await until(() => {
        const other = accepted.get(socket.localPort)
        return other !== undefined && (other.destroyed || other.bytesRead >= socket.bytesWritten)
      })
      await turn()
    },
    /** Resolves when the service knows that the connection is gone. */
    reset: async () => {
      const other = accepted.get(socket.localPort)
      socket.resetAndDestroy()
      await until(() => other?.destroyed === true)
    },
    /** Status of the first answer. */
    status: async () => Number(String((await first)[0]).split(' ')[1]),
    /** All that came until the connection was closed. */
    whole: answer,
  }
}

describe('a client below the minimum throughput', () => {
  it('gets 408 and is disconnected, and its memory is free at once', async () => {
    const request = await serve()
    const slow = request(lengthOf(LARGE) + body.padEnd(90_000))
    await untilWatched(1)
    await slow.send()
    vi.advanceTimersByTime(1_400)
    expect(await request(lengthOf(LARGE)).status()).toBe(503)
    vi.advanceTimersByTime(100)
    expect(await slow.status()).toBe(408)
    expect(await request(lengthOf(LARGE) + body.padEnd(LARGE)).status()).toBe(202)
    const text = await slow.whole()
    expect(text).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[^]*connection: close\r\n/i)
    expect(text).toContain('"code":"request_timeout"')
    expect(text.match(/^HTTP/gm)).toHaveLength(1)
  })

  it('behind a pipelined request is measured once that one is answered', async () => {
    const answered = Promise.withResolvers<void>()
    const request = await serve({
      submit: async () => { await answered.promise; return { kind: 'reused' } },
    })
    const slow = request(lengthOf(body.length) + body + lengthOf(LARGE))
    await slow.send('x')
    expect(vi.getTimerCount()).toBe(1)
    answered.resolve()
    await untilWatched(1)
    vi.advanceTimersByTime(200)
    expect((await slow.whole()).match(/HTTP\/1.1 \d+/g)).toEqual(['HTTP/1.1 422', 'HTTP/1.1 408'])
  })
})

it('a client on a slow connection may send a small body at any speed', async () => {
  const request = await serve()
  const [stated, chunked] = [request(lengthOf(body.length + 20)), request(CHUNKED)]
  await untilWatched(1)
  // Far beyond the grace, and while another request holds all the memory.
  const large = request(lengthOf(LARGE) + body.padEnd(LARGE - 1))
  await untilWatched(2)
  await large.send()
  for (let time = 0; time < 20; time++) {
    vi.advanceTimersByTime(100)
    await Promise.all([stated.send(' '), chunked.send(chunk(' '))])
  }
  await Promise.all([stated.send(body), chunked.send(`${chunk(body)}0\r\n\r\n`)])
  expect(await Promise.all([stated.status(), chunked.status()])).toEqual([202, 202])
  await large.send(' ')
  expect(await large.status()).toBe(202)
})

describe('bodies of one organization', () => {
  const OTHER = ['POST /api/v1/jobs HTTP/1.1', 'host: x', 'authorization: Bearer other',
    'content-type: application/json'].join('\r\n')
  const ofOther = (bytes: number) => `${OTHER}\r\ncontent-length: ${bytes}\r\n\r\n`
  const twoOrganizations = (): Partial<IngestDeps> => {
    const { findKey } = doubles()
    return {
      findKey: async (secret, address) => {
        const lookup = await findKey('live', address)
        if (secret !== 'other' || lookup.kind !== 'ok') return lookup
        return { kind: 'ok', key: { ...lookup.key, org: 'org_02', tenant: 'org_02.live' } }
      },
    }
  }

  it('that still arrive lose their memory to an organization with less', async () => {
    const request = await serve(twoOrganizations())
    const first = request(lengthOf(LARGE) + body.padEnd(LARGE - 1))
    await untilWatched(1)
    await first.send()
    expect(await request(lengthOf(90_000)).status()).toBe(503)
    expect(await request(ofOther(90_000) + body.padEnd(90_000)).status()).toBe(202)
    expect(await first.status()).toBe(503)
    expect(await request(lengthOf(LARGE) + body.padEnd(LARGE)).status()).toBe(202)
  })
})

it.each([
  'jobs', 'quotes', 'file-previews', 'contact-lists', 'contact-lists/file', 'contact-lists/lookups',
])('a large body of %s is refused without memory', async path => {
  const request = await serve()
  const first = request(lengthOf(LARGE) + body.padEnd(LARGE - 1))
  await untilWatched(1)
  await first.send()
  expect(await request(lengthOf(LARGE).replace('jobs', path)).status()).toBe(503)
})

it('a whole body keeps its memory until its response, also when its client is gone', async () => {
  const submitting = Promise.withResolvers<void>()
  const answered = Promise.withResolvers<void>()
  const request = await serve({
    submit: async () => {
      submitting.resolve()
      await answered.promise
      return { kind: 'reused' }
    },
  })
  const whole = lengthOf(LARGE) + body.padEnd(LARGE)
  const gone = request(whole)
  await submitting.promise
  await gone.reset()
  expect(await request(lengthOf(LARGE)).status()).toBe(503)
  answered.resolve()
  expect(await request(whole).status()).toBe(422)
})

it('a chunked body reserves memory as it arrives, and is rejected without memory', async () => {
  const request = await serve()
  const first = request(`${CHUNKED}${chunk(body.padEnd(90_000))}`)
  const second = request(`${CHUNKED}${chunk(body.padEnd(60_000))}`)
  await untilWatched(2)
  await Promise.all([first.send(), second.send()])
  await second.send(chunk(' '.repeat(40_000)))
  expect(await second.status()).toBe(503)
  expect(await second.whole()).toMatch(/^retry-after: 2\r$/im)
  await first.send('0\r\n\r\n')
  expect(await first.status()).toBe(202)
})

it('the memory of bodies guarantees an eighth to each organization', () => {
  const budget = createBodyBudget(80)
  const complete = budget.open('org_1')
  expect([complete.grow(80), budget.open('org_1').grow(1)]).toEqual([true, false])
  expect([budget.open('org_2').grow(11), budget.open('org_2').grow(10)]).toEqual([false, true])
})
