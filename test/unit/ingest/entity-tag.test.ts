import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { cachingHeaders, isUnchanged } from '../../../services/ingest/negotiation.ts'
import { application, closedJob, JOB_ID, MANIFEST } from './doubles.ts'

const job = closedJob()

/** An application whose job has ended; reads of its results are counted. */
function ended () {
  const reads: string[] = []
  const { app, get } = application({
    readJob: async () => job,
    findArchived: async () => ({ job, manifest: MANIFEST }),
    rows: async function * () {
      reads.push('page')
      yield []
    },
    csvStream: async function * () {
      reads.push('file')
      yield 'row,input\r\n'
    },
  })
  const head = (query = '', headers: Record<string, string> = {}) => app.inject({
    method: 'HEAD',
    url: `/api/v1/jobs/${JOB_ID}/results${query}`,
    headers: { authorization: 'Bearer live', ...headers },
  })
  const read = (query: string, headers = {}) =>
    get(`/jobs/${JOB_ID}/results${query}`, { headers })
  return { reads, head, read }
}

const EMPTY = { data: [], has_more: false, next_cursor: null }

describe('the tag of results', () => {
  it('is made of the blocks and the form, and answers who has them', () => {
    const { etag } = cachingHeaders(MANIFEST, ['json'])
    expect(etag).toMatch(/^"[0-9a-f]{32}-json"$/)
    expect(cachingHeaders([], ['json']).etag).not.toBe(etag)
    const request = { headers: { 'if-none-match': etag } } as Parameters<typeof isUnchanged>[0]
    const statuses: unknown[] = []
    const code = (status: number) => { statuses.push(status); return reply }
    const reply = { code, headers () {} }
    expect(isUnchanged(request, reply as never, { etag })).toBe(true)
    expect(isUnchanged(request, reply as never, { etag: '"x"' })).toBe(false)
    expect(statuses).toEqual([304])
  })

  it('is one for each page, its filters and its encoding', async () => {
    const { read } = ended()
    const queries = ['', '&limit=5', '&status=valid', '&source=valid', '&source=live']
    const tags = await Promise.all(queries.map(async query =>
      (await read(`?format=json${query}`)).headers.etag))
    const zipped = await read('?format=json', { 'accept-encoding': 'gzip' })
    expect(gunzipSync(zipped.rawPayload).toString()).toBe(JSON.stringify(EMPTY))
    expect(zipped.headers).toMatchObject({
      'content-encoding': 'gzip',
      vary: 'Accept, Accept-Encoding',
      'cache-control': 'private, no-cache',
    })
    const smaller = await read('?format=json', { 'accept-encoding': 'zstd' })
    expect(zstdDecompressSync(smaller.rawPayload).toString()).toBe(JSON.stringify(EMPTY))
    // The fourth is refused, as no row has such a source.
    expect(tags[3]).toBeUndefined()
    expect(new Set([...tags, zipped.headers.etag, smaller.headers.etag]).size).toBe(7)
    const again = await read('?format=json&limit=100')
    expect(again.headers.etag).toBe(tags[0])
  })

  it('spares reading a page that is known', async () => {
    const { read, reads } = ended()
    const { etag = '' } = (await read('?format=json')).headers
    const again = await read('?format=json', { 'if-none-match': etag })
    expect([again.statusCode, again.body, reads]).toEqual([304, '', ['page']])
  })
})

describe('HEAD of results', () => {
  it('has the headers of GET, and no block is read for a file', async () => {
    const { head, read, reads } = ended()
    const headers = { 'accept-encoding': 'gzip' }
    const file = await head('', headers)
    expect([file.statusCode, file.body, reads]).toEqual([200, '', []])
    expect(file.headers).not.toHaveProperty('content-length')
    const got = await read('', headers)
    for (const name of ['etag', 'content-type', 'content-disposition', 'content-encoding', 'vary',
      'ratelimit-limit']) {
      expect([name, file.headers[name]]).toEqual([name, got.headers[name]])
    }
    expect(file.headers['ratelimit-limit']).toBe('200')
    const page = await head('?format=json')
    expect([page.statusCode, page.body]).toEqual([200, ''])
    expect(page.headers['content-length']).toBe(String(JSON.stringify(EMPTY).length))
    const known = await head('', { ...headers, 'if-none-match': got.headers.etag ?? '' })
    expect(known.statusCode).toBe(304)
  })

  it('needs a key and the scope like GET', async () => {
    const { head } = ended()
    expect((await head('', { authorization: 'Bearer writer' })).statusCode).toBe(403)
    expect((await head('', { authorization: 'Bearer no' })).statusCode).toBe(401)
  })
})

describe('OPTIONS', () => {
  it('returns the methods of a path', async () => {
    const { app } = application()
    const answer = await app.inject({ method: 'OPTIONS', url: '/api/v1/jobs' })
    expect([answer.statusCode, answer.body, answer.headers.allow])
      .toEqual([204, '', 'POST, GET, HEAD, OPTIONS'])
  })
})
