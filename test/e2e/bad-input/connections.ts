import { describe, expect, it } from 'vitest'
import { ask, free, good, head, newCustomer, postHead, raw, shared } from './support.ts'
import type { Sent } from '../../support/stacks/environment.ts'

const body = JSON.stringify(free)
const chunk = (text: string) => `${text.length.toString(16)}\r\n${text}\r\n`
const CHUNKED = 'transfer-encoding: chunked'
const strictly = () => ({ baseUrl: shared().strict.baseUrl })
const statuses = (text: string) =>
  [...text.matchAll(/HTTP\/1\.1 (\d+)/g)].map(([, status]) => Number(status))

describe('what frames a request', () => {
  it('is as it should be when it is', async () => {
    const lengths = await raw([postHead(`content-length: ${body.length}`), body])
    const chunks = await raw([postHead('transfer-encoding:  Chunked '), chunk(body.slice(0, 7)),
      chunk(body.slice(7)), '0\r\nx-trailer: y\r\n\r\n'])
    expect([lengths.status, chunks.status]).toEqual([202, 202])
  })

  it.each([
    ['both, length first', [`content-length: ${body.length}`, CHUNKED], '0\r\n\r\n'],
    ['both, chunks first', [CHUNKED, 'content-length: 4'], '0\r\n\r\n'],
    ['two lengths', ['content-length: 2', 'content-length: 3'], '{} '],
    ['one length twice', ['content-length: 2', 'content-length: 2'], '{}'],
    ['a list of lengths', ['content-length: 2, 2'], '{}'],
    ['a length with a sign', ['content-length: +2'], '{}'],
    ['a length below nothing', ['content-length: -1'], '{}'],
    ['a length in hex', ['content-length: 0x2'], '{}'],
    ['a length beyond counting', [`content-length: ${'9'.repeat(30)}`], '{}'],
    ['a length that is none', ['content-length: two'], '{}'],
    ['a length with a space before its colon', ['content-length : 2'], '{}'],
    ['chunks that are not last', ['transfer-encoding: chunked, identity'], chunk(body)],
    ['another coding', ['transfer-encoding: xchunked'], chunk(body)],
    ['a coding before the chunks', ['transfer-encoding: gzip, chunked'],
      `${chunk(body)}0\r\n\r\n`],
    ['chunks twice', [CHUNKED, CHUNKED], `${chunk(body)}0\r\n\r\n`],
    ['chunks by a line of two', ['transfer-encoding:\r\n chunked'], chunk(body)],
    ['chunks with a space before the colon', ['transfer-encoding : chunked'], chunk(body)],
    ['a chunk without a size', [CHUNKED], 'zz\r\n{}\r\n0\r\n\r\n'],
    ['a chunk of a size beyond counting', [CHUNKED], 'fffffffffffffffff\r\n{}'],
    ['a chunk longer than it says', [CHUNKED], '2\r\n{}{}{}\r\n0\r\n\r\n'],
    ['chunks between bare line feeds', [CHUNKED], '2\n{}\n0\n\n'],
    ['a zero byte in a header', ['x: a\u0000b', 'content-length: 2'], '{}'],
    ['a header that goes on in the next line', ['x: a\r\n b', 'content-length: 2'], '{}'],
    ['a header without a colon', ['nothing', 'content-length: 2'], '{}'],
    ['no name of a header', [': nothing', 'content-length: 2'], '{}'],
    ['two hosts', ['host: other', 'content-length: 2'], '{}'],
  ])('is 400 and the end of the connection: %s', async (_what, headers, sent) => {
    // A server that reads other framing sees a second request behind.
    const smuggled = head('GET /api/v1/balance HTTP/1.1')
    const { status, code, text } = await raw([postHead(...headers), sent, smuggled])
    expect([status, code]).toEqual([400, 'invalid_request'])
    expect(statuses(text)).toEqual([400])
    expect(text).not.toContain('balanceMicros')
  })

  it('makes no job when the body is shorter than its length', async () => {
    const { key, client } = await newCustomer()
    const lines = postHead(`content-length: ${body.length + 1}`)
      .replace(/Bearer \S+/, `Bearer ${key}`)
    const { status } = await raw([lines, body], { end: true })
    expect([0, 400]).toContain(status)
    expect((await client.jobsPage({ limit: 1 })).data).toEqual([])
  })

  it('is 413 with extensions of a chunk over 16 KiB', async () => {
    const { status, code } = await raw([postHead(CHUNKED), `2;${'x'.repeat(20_000)}\r\n{}\r\n`])
    expect([status, code]).toEqual([413, 'body_too_large'])
  })
})

describe('a client that is slow on purpose', () => {
  it('gets 408, and the connection ends', async () => {
    const slow = await Promise.all([
      raw([head('GET / HTTP/1.1').slice(0, -4), '\r\nx: '], { ...strictly(), drip: true }),
      raw(['P'], strictly()),
      raw([postHead('content-length: 3000000'), '{'], { ...strictly(), drip: true }),
      raw([postHead('content-length: 30'), '{'], strictly()),
      raw([postHead(CHUNKED), '3\r\n{'], strictly()),
    ])
    expect(slow.map(({ status, code }) => [status, code]))
      .toEqual(Array(5).fill([408, 'request_timeout']))
  })

  it('delays no other request, two hundred times', async () => {
    const { baseUrl } = strictly()
    const slow = Array.from({ length: 200 }, () => raw(['GET / HTTP/1.1\r\nx: '], strictly()))
    const answer = await fetch(`${baseUrl}/services`, {
      headers: { authorization: `Bearer ${shared().environment.keys.live}` },
    })
    expect(answer.status).toBe(200)
    await answer.text()
    expect((await Promise.all(slow)).map(({ status }) => status)).toEqual(Array(200).fill(408))
  })
})

it('the memory reservation for bodies ' +
  'is released when a client disconnects at any moment', async () => {
  const lines = postHead('transfer-encoding: chunked')
  const left = Array.from({ length: 8 }, (_, at) =>
    raw([lines, at % 2 === 0 ? 'zz\r\n' : '', lines], { end: true }))
  await Promise.all(left)
  const large = JSON.stringify({ ...good, inputs: [' '.repeat(1_000), 1] })
  const answer = async () =>
    (await ask('/jobs', { body: large.padEnd(30_000_000, ' ') })).status
  // Connections whose end is not noticed yet may hold memory for a moment.
  await expect.poll(answer).toBe(400)
})

describe('a head', () => {
  /** Those that make so many with the three that every head has. */
  const manyHeaders = (count: number) => Array.from({ length: count - 3 }, (_, at) => `a${at}: b`)

  it.each([
    ['100 kB in one header', [`x: ${'y'.repeat(100_000)}`]],
    ['100 kB in many', Array.from({ length: 1_000 }, (_, at) => `x-${at}: ${'y'.repeat(90)}`)],
    ['201 headers', manyHeaders(201)],
    ['as many short ones as fit', Array.from({ length: 1_900 }, () => 'x:')],
    ['a key of 100 kB', [`idempotency-key: ${'7'.repeat(100_000)}`]],
  ])('too large is 431: %s', async (_what, headers) => {
    const { status, code } = await raw([head('GET /api/v1/jobs HTTP/1.1', ...headers)])
    expect([status, code]).toEqual([431, 'headers_too_large'])
  })

  it('may have 200 headers', async () => {
    expect((await raw([head('GET / HTTP/1.1', ...manyHeaders(200))])).status).toBe(200)
  })

  it('may come a thousand times ahead of the answers', async () => {
    const one = 'GET / HTTP/1.1\r\nhost: x\r\n\r\n'
    const { text } = await raw([one.repeat(999), head('GET / HTTP/1.1')])
    expect(statuses(text)).toEqual(Array(1_000).fill(200))
  })

  it.each([
    ['HTTP/1.0', 'GET /api/v1/services HTTP/1.0', 200],
    ['a whole address', 'GET http://other.example/api/v1/services HTTP/1.1', 200],
    ['two slashes', 'GET //api/v1/services HTTP/1.1', 404],
    ['dots', 'GET /api/v1/../v1/services HTTP/1.1', 404],
    ['encoded dots', 'GET /api/%2e%2e/api/v1/services HTTP/1.1', 404],
    ['an encoded slash', 'GET /api%2fv1/services HTTP/1.1', 404],
    ['an encoded zero', 'GET /api/v1/jobs/%00 HTTP/1.1', 404],
    ['half an encoding', 'GET /api/v1/jobs/%e0%a4%a HTTP/1.1', 404],
    ['no encoding', 'GET /api/v1/jobs/%zz HTTP/1.1', 404],
    ['bytes that are no UTF-8', 'GET /api/v1/jobs/%ff%fe HTTP/1.1', 404],
    ['a star', 'GET * HTTP/1.1', 404],
    ['a zero', 'GET /api/v1/\u0000 HTTP/1.1', 400],
    ['no path', 'GET HTTP/1.1', 400],
    ['a version to come', 'GET / HTTP/3.0', 400],
    ['another protocol', 'PRI * HTTP/2.0', 400],
    ['a query of 10 kB', `GET /api/v1/jobs?x=${'y'.repeat(10_000)} HTTP/1.1`, 400],
    ['a fragment', 'GET /api/v1/services#x HTTP/1.1', 200],
  ])('that is odd is answered, never with 5xx: %s', async (_what, line, expected) => {
    const { status, text } = await raw([head(line)])
    expect([status, ...(status < 300 ? [] : [/"error":\{"type":/.test(text)])])
      .toEqual([expected, ...(expected < 300 ? [] : [true])])
  })

  it.each([
    ['no host', 'GET / HTTP/1.1\r\nconnection: close\r\n\r\n', 400],
    ['a host twice', 'GET / HTTP/1.1\r\nhost: a\r\nHOST: a\r\nconnection: close\r\n\r\n', 400],
    ['two hosts of 1.0', 'GET / HTTP/1.0\r\nhost: a\r\nhost: b\r\n\r\n', 400],
    ['FTP', 'OPTIONS ftp://x/a HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n', 404],
    ['chunks over HTTP/1.0',
      'POST /api/v1/jobs HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n', 400],
    ['a greeting of mail', 'EHLO example.com\r\n\r\n', 400],
    ['the beginning of TLS', '\u0016\u0003\u0001\u0002\u0000\u0001\r\n\r\n', 400],
    ['a tunnel', 'CONNECT example.com:443 HTTP/1.1\r\nhost: x\r\n\r\n', 405],
  ])('that is odd is answered, never with 5xx: %s', async (_what, text, expected) => {
    const answer = await raw([Buffer.from(text, 'latin1')])
    expect([answer.status, /"request_id":"req_/.test(answer.text)]).toEqual([expected, true])
    expect(answer.text).toMatch(/^cache-control: no-store\r$/m)
  })

  it('with another protocol or an unknown expectation is read without them', async () => {
    const upgrade = await raw([
      head('GET / HTTP/1.1', 'upgrade: websocket').replace('close', 'close, upgrade')])
    const expecting = await raw([
      postHead('expect: wonders', `content-length: ${body.length}`), body])
    expect([upgrade.status, expecting.status]).toEqual([200, 202])
  })

  it.each<[method: string, path: string, status: number, allow?: string]>([
    ['DELETE', '/jobs', 405, 'POST, GET, HEAD, OPTIONS'],
    ['PUT', '/jobs/', 405, 'POST, GET, HEAD, OPTIONS'],
    ['PATCH', '/jobs/job_1?x=1', 405, 'GET, HEAD, DELETE, OPTIONS'],
    ['TRACE', '/jobs', 405, 'POST, GET, HEAD, OPTIONS'],
    ['PROPFIND', '/jobs/job_1/results', 405, 'GET, HEAD, OPTIONS'],
    ['POST', '/balance', 405, 'GET, HEAD, OPTIONS'],
    ['GET', '/quotes', 405, 'POST, OPTIONS'], ['HEAD', '/quotes', 405, 'POST, OPTIONS'],
    ['OPTIONS', '/jobs', 204, 'POST, GET, HEAD, OPTIONS'], ['HEAD', '/services', 200],
    ['HEAD', '/jobs/job_1/cancel', 405, 'POST, OPTIONS'], ['POST', '/nothing', 404],
    ['OPTIONS', '/nothing', 404], ['FOO', '/jobs', 400], ['get', '/jobs', 400],
  ])('has a method of its path, else 405 with Allow: %s %s', async (method, path, ...expected) => {
    const { status, code, text } = await raw([head(`${method} /api/v1${path} HTTP/1.1`)])
    const allow = /^allow: (.*?)\r?$/im.exec(text)?.[1]
    expect([status, allow]).toEqual([expected[0], expected[1]])
    if (status === 405 && method !== 'HEAD') expect(code).toBe('method_not_allowed')
  })
})

describe('a key', () => {
  const refused = async (sent: Sent) => {
    const { status, code, headers } = await ask('/services', sent)
    expect(headers.has('ratelimit-limit')).toBe(false)
    return [status, code, headers.get('www-authenticate')]
  }
  const bearer = (authorization: string) => refused({ headers: { authorization } })

  it('that is missing, garbled, sent twice, too long or in the query is 401', async () => {
    const { keys } = shared().environment
    const invalid = [401, 'invalid_key', 'Bearer']
    expect(await bearer('')).toEqual([401, 'missing_key', 'Bearer'])
    for (const text of ['Bearer', 'Bearer ', keys.live, `Basic ${keys.live}`,
      `Bearer ${keys.live} x`, `Bearer ${keys.live},${keys.live}`, `Bearer ${keys.live.slice(1)}`,
      `Bearer ${keys.live.toUpperCase()}`, `Bearer ${'x'.repeat(10_000)}`, `Bearer "${keys.live}"`,
      'Bearer vj_live_', 'Bearer null', "Bearer ' or 1=1", `Token ${keys.live}`]) {
      expect([text.slice(0, 60), ...await bearer(text)]).toEqual([text.slice(0, 60), ...invalid])
    }
    expect((await ask('/services', { headers: { authorization: `bearer ${keys.live}` } })).status)
      .toBe(200)
    const twice = await raw([head('GET /api/v1/services HTTP/1.1',
      `authorization: Bearer ${keys.live}`)])
    expect([twice.status, twice.code]).toEqual([401, 'invalid_key'])
    const query = await ask(`/services?key=${keys.live}&access_token=${keys.live}`,
      { headers: { authorization: '' } })
    expect([query.status, query.code]).toEqual([401, 'missing_key'])
  })

  it('an id that is malformed is 404, one of a megabyte 431 as any long head', async () => {
    for (const id of ['job_', 'job_1', 'JOB_01jd3v8zj7m5n2k4q6r8s0t1w3', 'job_01jd3v8zj7m5n2k4q6r8',
      'job_01jd3v8zj7m5n2k4q6r8s0t1w3 ', 'quot_01jd3v8zj7m5n2k4q6r8s0t1w3', 'x', '%F0%9F%98%80',
      'job_91jd3v8zj7m5n2k4q6r8s0t1w3', 'job_*', '%2e', "job_'--",
      'job_01jd3v8zj7m5n2k4q6r8s0t1w%00',
      '{job}', 'job_'.padEnd(201, '0'), 'job_'.padEnd(10_000, '0')]) {
      const { status, code } = await ask(`/jobs/${encodeURI(id)}`)
      expect([id.slice(0, 50), status, /^(job_)?not_found$/.test(code)])
        .toEqual([id.slice(0, 50), 404, true])
    }
    const long = await raw([head(`GET /api/v1/jobs/job_${'0'.repeat(1_000_000)} HTTP/1.1`)])
    expect([long.status, long.code]).toEqual([431, 'headers_too_large'])
  })

  it('is all that the requests above lacked', async () => {
    expect((await ask('/quotes', { body: good })).status).toBe(200)
  })
})
