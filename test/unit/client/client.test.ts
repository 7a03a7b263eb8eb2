import { afterEach, describe, expect, it } from 'vitest'
import { type Client, createClient } from '../../../services/client/client.ts'

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const job = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'
const order = { service: 'phone-validation', inputs: ['+12127365000'] }
const file = new TextEncoder().encode('a,b\n1,2\n')
const lost = new TypeError('lost')

/** A service with these responses in order, the last one repeatedly; records its requests. */
function serving (...answers: readonly (object | string)[]) {
  type Received = { readonly line: string, readonly headers: Headers, readonly body: unknown }
  const requests: Received[] = []
  const client = createClient({
    baseUrl: 'http://there',
    apiKey: 'k',
    pause: async () => {},
    fetch: async (url, init) => {
      const answer = answers[requests.length] ?? answers.at(-1)
      const { body, method, headers } = init ?? {}
      requests.push({
        line: `${method} ${String(url).slice('http://there'.length)}`,
        headers: new Headers(headers),
        body: typeof body === 'string' ? JSON.parse(body) : body,
      })
      if (answer instanceof Error) throw answer
      if (answer instanceof Response) return answer.clone()
      return new Response(typeof answer === 'string' ? answer : JSON.stringify(answer))
    },
  })
  const keys = () => requests.map(({ headers }) => headers.get('idempotency-key'))
  return { client, requests, keys, lines: () => requests.map(({ line }) => line) }
}

async function all<T> (items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

describe('a request that creates a job', () => {
  const withMetadata = { service: 's', column: 2, header: true, metadata: { 'a b': '&' } }

  it.each<[line: string, send: (client: Client, key?: string) => Promise<unknown>, body: unknown]>([
    ['POST /jobs', (client, key) => client.createJob(order, key), order],
    ['POST /jobs?service=s&column=2&header=true&metadata%5Ba+b%5D=%26',
      (client, key) => client.createJobFromFile(file, withMetadata, key), file],
    ['POST /verifications', (client, key) => client.verify(order, {
      wait: 3, ...key !== undefined && { idempotencyKey: key },
    }), { ...order, wait: 3 }],
  ])('%s has a new key, the same one after a lost response, or a given one', async (...row) => {
    const [line, send, body] = row
    const { client, requests, keys, lines } = serving(lost, { id: job })
    expect(await send(client)).toEqual({ id: job })
    await send(client)
    await send(client, 'mine')
    expect(lines()).toEqual(Array(4).fill(line))
    const [first, again, next, given] = keys()
    expect([first, next]).toEqual([expect.stringMatching(UUID_V4), expect.stringMatching(UUID_V4)])
    expect([again, next === first, given]).toEqual([first, false, 'mine'])
    expect(requests[1]?.body).toEqual(body)
    expect(requests[1]?.headers.get('content-type'))
      .toBe(body === file ? 'text/csv' : 'application/json')
  })
})

describe('the wait for a job', () => {
  it.each<[object, string]>([
    [{}, '?wait=25'], [{ onProgress: () => {} }, '?wait=1'], [{ timeoutMs: 2_500 }, '?wait=3'],
    [{ pollEveryMs: 0 }, ''],
  ])('with %j requests its status again until it has ended', async (options, query) => {
    const { client, lines } = serving(
      { status: 'queued' }, { status: 'cancelling' }, { status: 'cancelled' })
    expect(await client.waitForEnd(job, options)).toEqual({ status: 'cancelled' })
    expect(lines()).toEqual(Array(3).fill(`GET /jobs/${job}${query}`))
  })

  it('has the fields that the client does not know as well', async () => {
    const later = { status: 'completed', field_of_next_year: { deep: [1] } }
    expect(await serving(later).client.waitForEnd(job)).toEqual(later)
  })

  it('is not longer than the time limit', async () => {
    const { client } = serving({ id: job, status: 'verifying' })
    await expect(client.waitForEnd(job, { pollEveryMs: 1, timeoutMs: 3 }))
      .rejects.toThrow(`${job} is still verifying after 3 ms`)
  })

  it('goes on for a verification that takes longer than a response', async () => {
    const results = [{ row: 1, status: 'valid' }]
    const later = new Response(JSON.stringify({ id: job, preflight: {} }), { status: 202 })
    const { client, lines } = serving(later, { id: job, status: 'completed' }, { data: results })
    expect(await client.verify(order))
      .toEqual({ id: job, status: 'completed', preflight: {}, results })
    expect(lines()).toEqual([
      'POST /verifications', `GET /jobs/${job}?wait=25`,
      `GET /jobs/${job}/results?limit=1000&format=json`,
    ])
  })
})

const endpoint = { url: 'https://hooks.example.com/in' }

describe('a method of the API client', () => {
  it.each<[line: string, call: (client: Client) => Promise<unknown>, result?: unknown]>([
    ['GET /jobs?limit=5&status=failed&metadata%5Ba+b%5D=c%26d',
      client => client.jobsPage({ limit: 5, status: 'failed', metadata: { 'a b': 'c&d' } })],
    [`DELETE /jobs/${job}?cache=true`, client => client.eraseJob(job, { cache: true })],
    [`GET /jobs/${job}/results?format=csv&safe=spreadsheet`,
      client => client.results(job, { safe: 'spreadsheet' }), '{"data":[1]}'],
    ['GET /usage?from=x+y%26&group_by=day%2Ckey&format=json',
      client => client.usage({ from: 'x y&', to: undefined as never, group_by: 'day,key' })],
    ['GET /services', client => client.services(), [1]],
  ])('sends %s', async (line, call, result = { data: [1] }) => {
    const { client, lines } = serving({ data: [1] })
    expect([await call(client), lines()]).toEqual([result, [line]])
  })

  it.each<[string, (client: Client) => Promise<unknown>]>([
    ['resends a webhook', client => client.resend(job, 'evt_1')],
    ['creates an endpoint', client => client.createWebhookEndpoint(endpoint)],
    ['rotates a secret', client => client.rotateWebhookEndpointSecret('we_1')],
  ])('that %s is not repeated after a lost response', async (_, call) => {
    const { client, lines } = serving(lost)
    await expect(call(client)).rejects.toThrow('lost')
    expect(lines()).toHaveLength(1)
  })
})

describe('a list of the API client', () => {
  const selection = { status: ['valid', 'risky'], source: 'live' } as const

  it.each<[first: string, second: string, list: (client: Client) => AsyncIterable<unknown>]>([
    [`/jobs/${job}/results?status=valid%2Crisky&source=live&limit=1000`,
      '&cursor=c1', client => client.resultRows(job, selection)],
    ['/transactions?limit=100&type=settle',
      '&after=c1', client => client.transactions({ type: 'settle' })],
  ])('%s is read page by page', async (path, next, list) => {
    const { client, lines } = serving(
      { data: [1, 2], has_more: true, next_cursor: 'c1' }, { data: [3], next_cursor: null })
    expect(await all(list(client))).toEqual([1, 2, 3])
    expect(lines().map(line => line.replace('&format=json', '')))
      .toEqual([`GET ${path}`, `GET ${path}${next}`])
  })

  it('of complete rows is one answer, from a cursor on', async () => {
    const { client, lines } = serving('{"row":1,"cursor":"c1"}\n{"row":3,"cursor":"c3"}\n')
    expect(await all(client.completeRows(job, { after: 'c0', status: 'valid' })))
      .toEqual([{ row: 1, cursor: 'c1' }, { row: 3, cursor: 'c3' }])
    expect(lines())
      .toEqual([`GET /jobs/${job}/results?format=jsonl&provisional=true&after=c0&status=valid`])
  })

  it('of events ends with the reason of its signal, between two connections too', async () => {
    const event = 'id: e1\nevent: progress\ndata: {"status":"verifying"}\n\n'
    const { client, lines } = serving(event, event)
    const stopping = new AbortController()
    const events = client.events(job, '', stopping.signal)[Symbol.asyncIterator]()
    expect((await events.next()).value).toMatchObject({ id: 'e1' })
    const next = events.next()
    stopping.abort()
    await expect(next).rejects.toThrow('abort')
    expect(lines()).toEqual([`GET /jobs/${job}/events`])
  })

  it('requests no page that the loop does not need', async () => {
    const { client, lines } = serving({ data: ['a'], has_more: true, next_cursor: 'more' })
    for await (const item of client.jobs()) { if (String(item) === 'a') break }
    expect(lines()).toHaveLength(1)
  })
})

describe('the result file of the API client', () => {
  const { undici } = process.versions
  const setUndici = (value: string | undefined) =>
    Object.defineProperty(process.versions, 'undici', { value, configurable: true })
  afterEach(() => { setUndici(undici) })

  it('is a stream of rows that can be split at any byte', async () => {
    const bytes = Buffer.from('{"input":"é"}\n{"input":"b"}')
    for (let cut = 1; cut < bytes.length; cut++) {
      const body = new ReadableStream({
        start (controller) {
          controller.enqueue(bytes.subarray(0, cut))
          controller.enqueue(bytes.subarray(cut))
          controller.close()
        },
      })
      const { client, lines } = serving(new Response(body))
      expect(await all(client.resultLines(job))).toEqual([{ input: 'é' }, { input: 'b' }])
      expect(lines()).toEqual([`GET /jobs/${job}/results?format=jsonl`])
    }
  })

  it.each([
    ['7.29.1', 'zstd, gzip'], ['7.30.0', 'zstd, gzip'], ['8.0.0', 'zstd, gzip'],
    ['6.29.3', null], ['7.9.0', null], [undefined, null],
  ])('is requested from undici %s with the encoding %s', async (version, encoding) => {
    setUndici(version)
    const { client, requests } = serving('')
    await client.results(job)
    await all(client.resultLines(job))
    expect(requests.map(({ headers }) => headers.get('accept-encoding')))
      .toEqual([encoding, encoding])
  })
})
