import { describe, expect, it } from 'vitest'
import { ApiError, compressionHeaders, createClient } from '../../../services/client/client.ts'

const UUID_V4 = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/
const job = 'job_01jd3v8zj7m5n2k4q6r8s0t1w3'
const order = { service: 'phone-validation', inputs: ['+12127365000'] }

/** A service with these responses in order, the last one repeatedly; records its requests. */
function serving (...answers: readonly (object | string | Error | Response)[]) {
  type Received = { readonly line: string, readonly headers: Headers, readonly body: unknown }
  const requests: Received[] = []
  const client = createClient({
    baseUrl: 'http://there',
    apiKey: 'k',
    pause: async () => {},
    fetch: async (url, init) => {
      const answer = answers[requests.length] ?? answers.at(-1)
      requests.push({
        line: `${init?.method} ${String(url).slice('http://there'.length)}`,
        headers: new Headers(init?.headers),
        body: init?.body === undefined ? undefined : JSON.parse(String(init.body)),
      })
      if (answer instanceof Error) throw answer
      if (answer instanceof Response) return answer
      return new Response(typeof answer === 'string' ? answer : JSON.stringify(answer))
    },
  })
  return { client, requests, lines: () => requests.map(({ line }) => line) }
}

async function all<T> (items: AsyncIterable<T>): Promise<T[]> {
  const list: T[] = []
  for await (const item of items) list.push(item)
  return list
}

describe('a job of the API client', () => {
  it('is sent with a new idempotency key, the same one after a lost response', async () => {
    const { client, requests } = serving(new TypeError('lost'), { id: job })
    expect(await client.createJob(order)).toEqual({ id: job })
    const keys = requests.map(({ headers }) => headers.get('idempotency-key'))
    expect(keys[0]).toMatch(UUID_V4)
    expect(keys).toEqual([keys[0], keys[0]])
    expect(requests[1]).toMatchObject({ line: 'POST /jobs', body: order })
    await client.createJob(order)
    expect(requests[2]?.headers.get('idempotency-key')).not.toBe(keys[0])
  })

  it('is sent with a given idempotency key', async () => {
    const { client, requests } = serving({})
    await client.createJob(order, 'mine')
    expect(requests[0]?.headers.get('idempotency-key')).toBe('mine')
  })

  it('is awaited by long polling until it has ended', async () => {
    const { client, lines } = serving({ status: 'queued' }, { status: 'verifying' },
      { status: 'completed' })
    expect(await client.waitForEnd(job)).toEqual({ status: 'completed' })
    expect(lines()).toEqual(Array(3).fill(`GET /jobs/${job}?wait=25`))
    const shown = serving({ status: 'completed' })
    await shown.client.waitForEnd(job, { onProgress: () => {} })
    expect(shown.lines()).toEqual([`GET /jobs/${job}?wait=1`])
    const soon = serving({ status: 'completed' })
    await soon.client.waitForEnd(job, { timeoutMs: 2_500 })
    expect(soon.lines()).toEqual([`GET /jobs/${job}?wait=3`])
  })

  it('is polled at an interval on request', async () => {
    const { client, lines } = serving({ status: 'queued' }, { status: 'cancelling' },
      { status: 'cancelled' })
    const seen: string[] = []
    const onProgress = ({ status }: { status: string }) => { seen.push(status) }
    expect(await client.waitForEnd(job, { pollEveryMs: 0, onProgress }))
      .toEqual({ status: 'cancelled' })
    expect(seen).toEqual(['queued', 'cancelling', 'cancelled'])
    expect(lines()).toEqual(Array(3).fill(`GET /jobs/${job}`))
  })

  it('has the fields that the client does not know as well', async () => {
    const later = { status: 'completed', field_of_next_year: { deep: [1] } }
    const { client } = serving(later)
    expect(await client.waitForEnd(job)).toEqual(later)
  })

  it('is not polled longer than the time limit', async () => {
    const { client } = serving({ id: job, status: 'verifying' })
    await expect(client.waitForEnd(job, { pollEveryMs: 1, timeoutMs: 3 }))
      .rejects.toThrow(`${job} is still verifying after 3 ms`)
  })
})

describe('a verification of the API client', () => {
  const verified = { id: job, status: 'completed', results: [{ row: 1, status: 'valid' }] }

  it('is sent with a new or a given idempotency key and its wait', async () => {
    const { client, requests } = serving(new TypeError('lost'), verified)
    expect(await client.verify(order)).toEqual(verified)
    const keys = requests.map(({ headers }) => headers.get('idempotency-key'))
    expect(keys[0]).toMatch(UUID_V4)
    expect(keys).toEqual([keys[0], keys[0]])
    expect(requests[1]).toMatchObject({ line: 'POST /verifications', body: order })
    await client.verify(order, { wait: 3, idempotencyKey: 'mine' })
    expect(requests[2]?.headers.get('idempotency-key')).toBe('mine')
    expect(requests[2]?.body).toEqual({ ...order, wait: 3 })
  })

  it('that takes longer than a response is awaited, and its rows are read', async () => {
    const { preflight, results, ...ended } = { ...verified, preflight: { totalRows: 1 } }
    const later = new Response(JSON.stringify({ id: job, status: 'queued', preflight }),
      { status: 202 })
    const { client, lines } = serving(later, ended, { data: results })
    expect(await client.verify(order)).toEqual({ ...ended, preflight, results })
    expect(lines()).toEqual([
      'POST /verifications', `GET /jobs/${job}?wait=25`,
      `GET /jobs/${job}/results?limit=1000&format=json`,
    ])
  })
})

describe('every other method of the API client', () => {
  it('calls its endpoint', async () => {
    const { client, lines, requests } = serving({ data: [1] })
    await client.job(job)
    await client.jobsPage({ limit: 5, status: 'failed' })
    await client.cancel(job)
    await client.quote(order)
    await client.balance()
    expect(await client.services()).toEqual([1])
    expect(await client.deliveries(job)).toEqual([1])
    await client.resend(job, 'evt_1')
    expect(lines()).toEqual([
      `GET /jobs/${job}`, 'GET /jobs?limit=5&status=failed', `POST /jobs/${job}/cancel`,
      'POST /quotes', 'GET /balance', 'GET /services', `GET /jobs/${job}/deliveries`,
      `POST /jobs/${job}/deliveries/evt_1/resend`,
    ])
    expect(requests[3]?.body).toEqual(order)
    expect(requests[2]?.headers.has('content-type')).toBe(false)
  })

  it('uses the given fetch', async () => {
    const fetch = async (url: unknown) => new Response(JSON.stringify({ data: url }))
    expect(await createClient({ baseUrl: '', apiKey: 'k', fetch }).services()).toBe('/services')
  })

  it('that resends a webhook does not retry after a lost response', async () => {
    const { client, lines } = serving(new TypeError('lost'))
    await expect(client.resend(job, 'evt_1')).rejects.toThrow('lost')
    expect(lines().length).toBe(1)
  })

  it('throws the error of the service', async () => {
    const client = createClient({
      baseUrl: '',
      apiKey: 'k',
      fetch: async () => new Response('{"error":{"code":"job_not_found","message":"No."}}',
        { status: 404 }),
    })
    const error = await client.job(job).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ status: 404, code: 'job_not_found' })
  })
})

describe('a list of the API client', () => {
  const pages = [
    { data: [1, 2], has_more: true, next_cursor: 'c1' },
    { data: [3], has_more: false, next_cursor: null },
  ]

  it('of jobs is read page by page', async () => {
    const { client, lines } = serving(...pages)
    expect(await all(client.jobs({ service: 'whatsapp' }))).toEqual([1, 2, 3])
    expect(lines()).toEqual([
      'GET /jobs?limit=100&service=whatsapp', 'GET /jobs?limit=100&service=whatsapp&after=c1',
    ])
  })

  it('of result rows is read page by page', async () => {
    const { client, lines } = serving(...pages)
    expect(await all(client.resultRows(job, { status: ['valid', 'risky'], source: 'live' })))
      .toEqual([1, 2, 3])
    const path = `GET /jobs/${job}/results?status=valid%2Crisky&source=live&limit=1000`
    expect(lines()).toEqual([`${path}&format=json`, `${path}&cursor=c1&format=json`])
  })

  it('requests no page that the loop does not need', async () => {
    const { client, lines } = serving({ data: ['a'], has_more: true, next_cursor: 'more' })
    for await (const item of client.jobs()) { if (String(item) === 'a') break }
    expect(lines()).toHaveLength(1)
  })
})

describe('results of the API client', () => {
  it('are read as text, as a stream of bytes or as JSON lines', async () => {
    const csv = serving('row\r\n1\r\n')
    expect(await csv.client.results(job, { safe: 'spreadsheet' })).toBe('row\r\n1\r\n')
    const pieces = await all(await csv.client.resultsFile(job))
    expect(Buffer.concat(pieces).toString()).toBe('row\r\n1\r\n')
    expect(csv.lines()).toEqual([
      `GET /jobs/${job}/results?format=csv&safe=spreadsheet`,
      `GET /jobs/${job}/results?format=csv`,
    ])
    const lines = serving('{"row":1}\n{"row":2}')
    expect(await all(lines.client.resultLines(job))).toEqual([{ row: 1 }, { row: 2 }])
    expect(lines.lines()).toEqual([`GET /jobs/${job}/results?format=jsonl`])
  })

  it('as JSON lines can be split at any byte', async () => {
    const bytes = Buffer.from('{"input":"é"}\n{"input":"b"}\n')
    for (let cut = 1; cut < bytes.length; cut++) {
      const body = new ReadableStream({
        start (controller) {
          controller.enqueue(bytes.subarray(0, cut))
          controller.enqueue(bytes.subarray(cut))
          controller.close()
        },
      })
      const { client } = serving(new Response(body))
      expect(await all(client.resultLines(job))).toEqual([{ input: 'é' }, { input: 'b' }])
    }
  })
})

describe('a query string of the API client', () => {
  it('contains the defined fields, escaped', async () => {
    const { client, lines } = serving({})
    await client.usage({ from: 'x y&', to: undefined as never, group_by: 'day' })
    await client.transactionsPage({ after: undefined as never })
    expect(lines()).toEqual(
      ['GET /usage?from=x+y%26&group_by=day&format=json', 'GET /transactions'])
  })
})

describe('a result file of the API client', () => {
  it('is requested as zstd only where fetch can decode it', () => {
    const expected = { headers: { 'accept-encoding': 'zstd, gzip' } }
    for (const version of ['7.29.1', '7.30.0', '8.0.0']) {
      expect(compressionHeaders(version)).toEqual(expected)
    }
    for (const version of ['6.21.3', '7.9.0', '', undefined]) {
      expect(compressionHeaders(version)).toEqual({})
    }
    expect(compressionHeaders(process.versions['undici'])).toEqual(expected)
  })
})

describe('usage, transactions and erasure of the API client', () => {
  it('send their queries', async () => {
    const { client, lines } = serving({ data: [], has_more: false, next_cursor: null })
    await client.eraseJob(job)
    await client.eraseJob(job, { cache: true })
    await client.usage({ from: '2026-08-01', group_by: 'day,key' })
    await client.usageFile()
    await all(client.transactions({ type: 'settle' }))
    await client.jobsPage({ created_from: '2026-08-01', metadata: { 'a b': 'c&d' } })
    expect(lines()).toEqual([
      `DELETE /jobs/${job}`,
      `DELETE /jobs/${job}?cache=true`,
      'GET /usage?from=2026-08-01&group_by=day%2Ckey&format=json',
      'GET /usage?format=csv',
      'GET /transactions?limit=100&type=settle',
      'GET /jobs?created_from=2026-08-01&metadata%5Ba+b%5D=c%26d',
    ])
  })
})
