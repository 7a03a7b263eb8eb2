import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { application, closedJob, JOB_ID, jobOf, MANIFEST, NOW_MS, outage } from './doubles.ts'

const CSV = 'row,input\r\n1,+12127365000\r\n'
const closed = closedJob()
const ended = {
  readJob: async () => closed,
  findArchived: async () => ({ job: closed, manifest: MANIFEST }),
}
const results = `/jobs/${JOB_ID}/results`

describe('the status of a job', () => {
  it('has every field of the interface', async () => {
    const { get } = application()
    const answer = await get(`/jobs/${JOB_ID}`)
    expect(answer.statusCode).toBe(200)
    expect(answer.json()).toEqual({
      id: JOB_ID,
      status: 'queued',
      totalRows: 10,
      cacheHits: 1,
      freshRecords: 0,
      successRecords: 4,
      failedRecords: 2,
      createdAt: '2026-08-11T09:59:55.000Z',
      updatedAt: '2026-08-11T09:59:56.000Z',
      resultUrl: `/api/v1/jobs/${JOB_ID}/results`,
      service: 'phone-validation',
      invalidRows: 2,
      duplicateRows: 3,
      invalidRecords: 2,
      duplicateRecords: 3,
      unknownRecords: 0,
      cancelledRecords: 0,
      pendingRecords: 4,
      progressPercent: 60,
      maxQuoteMicros: 10_000,
      chargedMicros: 0,
      releasedMicros: 0,
      metadata: { team: 'blue' },
      completedAt: null,
      hasOriginalColumns: false,
      erasedAt: null,
      erasureCompletedAt: null,
    })
  })

  it('of a closed job comes from the archive once Redis has forgotten it', async () => {
    const { get } = application({ ...ended, readJob: async () => undefined })
    expect((await get(`/jobs/${JOB_ID}`)).json()).toMatchObject({
      status: 'completed', progressPercent: 100, completedAt: '2026-08-11T09:59:57.000Z',
    })
  })

  it.each([
    'nonsense', 'job_', 'job_01JD3V8ZJ7M5N2K4Q6R8S0T1W3', `${JOB_ID}0`, 'job_ünïcode', '%00',
    '..%2f', 'x'.repeat(190),
  ])('of an id that can be none is not looked up: %.20s', async id => {
    const { get, calls } = application()
    const answer = await get(`/jobs/${encodeURI(id)}`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([404, 'job_not_found'])
    expect(calls.lookups).toEqual([])
  })

  it('of another tenant is answered like that of no job at all', async () => {
    const { get } = application()
    const other = await get(`/jobs/${JOB_ID}`, { key: 'test' })
    const unknown = await get('/jobs/job_01jd3v8zj7m5n2k4q6r8s0t1w9')
    const shown = (answer: typeof other) => {
      const { request_id: _id, ...error } = answer.json().error
      return [answer.statusCode, error, Object.keys(answer.headers).sort()]
    }
    expect(shown(other)).toEqual(shown(unknown))
    expect(other.statusCode).toBe(404)
  })

  it('is 503 while infrastructure is away', async () => {
    const { get } = application({ readJob: () => Promise.reject(outage) })
    const answer = await get(`/jobs/${JOB_ID}`)
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'temporarily_unavailable'])
    expect(answer.headers['retry-after']).toBe('2')
  })
})

describe('the results of a job', () => {
  it('come as a CSV file', async () => {
    const { get } = application(ended)
    const answer = await get(results)
    expect([answer.statusCode, answer.body]).toEqual([200, CSV])
    expect(answer.headers).toMatchObject({
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': `attachment; filename="${JOB_ID}.csv"`,
      vary: 'Accept, Accept-Encoding',
    })
    expect(answer.headers).not.toHaveProperty('content-encoding')
    expect(answer.headers.etag).toMatch(/^"[0-9a-f]{32}"$/)
  })

  it('are compressed on request, under an ETag of their own', async () => {
    const { get } = application(ended)
    const plain = await get(results)
    const zipped = await get(results, { headers: { 'accept-encoding': 'br, gzip;q=0.5' } })
    expect(zipped.headers['content-encoding']).toBe('gzip')
    expect(gunzipSync(zipped.rawPayload).toString()).toBe(CSV)
    expect(zipped.headers.etag).toBe(`${plain.headers.etag?.toString().slice(0, -1)}-gzip"`)
    const smaller = await get(results, { headers: { 'accept-encoding': 'gzip, zstd' } })
    expect(smaller.headers['content-encoding']).toBe('zstd')
    expect(zstdDecompressSync(smaller.rawPayload).toString()).toBe(CSV)
    expect(smaller.headers.etag).toBe(`${plain.headers.etag?.toString().slice(0, -1)}-zstd"`)
    const refused = await get(results, { headers: { 'accept-encoding': 'gzip;q=0' } })
    expect(refused.body).toBe(CSV)
  })

  it('are not sent again to who has them', async () => {
    const { get } = application(ended)
    const { etag } = (await get(results)).headers
    const again = await get(results, { headers: { 'if-none-match': `"x", ${etag}` } })
    expect([again.statusCode, again.body, again.headers.etag]).toEqual([304, '', etag])
  })

  it('are guarded for spreadsheets on request only', async () => {
    const calls: (boolean | undefined)[] = []
    const { get } = application({
      ...ended,
      csvStream: async function * (_job, _manifest, { safe }) {
        calls.push(safe === true)
        yield 'row'
      },
    })
    const tags = [await get(results), await get(`${results}?safe=spreadsheet`)]
      .map(answer => answer.headers.etag)
    expect(calls).toEqual([false, true])
    expect(tags[0]).not.toBe(tags[1])
  })

  it.each([
    ['queued', 10, '1'], ['verifying', 50_000, '5'],
  ] as const)('are not there while the job is %s', async (status, totalRows, seconds) => {
    const job = jobOf({ status, preflight: { ...jobOf().preflight, totalRows } })
    const { get } = application({ readJob: async () => job })
    const answer = await get(results)
    expect(answer.statusCode).toBe(409)
    expect(answer.json().error)
      .toMatchObject({ code: 'job_not_completed', status, type: 'conflict' })
    expect(answer.headers['retry-after']).toBe(seconds)
  })

  it('of an ended job that are not stored in time can be read later', async () => {
    const { get } = application({ readJob: async () => ({ ...closed, closed: false }) })
    const answer = await get(results)
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'temporarily_unavailable'])
    expect(answer.headers['retry-after']).toBeDefined()
  })

  it('are gone after 90 days', async () => {
    const old = closedJob({ endedAtMs: NOW_MS - 90 * 86_400_000 })
    const gone = application({ readJob: async () => old })
    const answer = await gone.get(results)
    expect([answer.statusCode, answer.json().error.code]).toEqual([410, 'results_expired'])
    const young = closedJob({ endedAtMs: NOW_MS - 90 * 86_400_000 + 1 })
    const kept = application({ ...ended, readJob: async () => young })
    expect((await kept.get(results)).statusCode).toBe(200)
  })

  it('of an unknown job are 404', async () => {
    const { get } = application({ readJob: async () => undefined })
    expect((await get(results)).json().error.code).toBe('job_not_found')
  })

  it('that can not be read are an error, not half a file', async () => {
    const { get } = application({
      ...ended,

      csvStream: async function * () { throw outage },
    })
    const answer = await get(results)
    expect([answer.statusCode, answer.json().error.code]).toEqual([503, 'temporarily_unavailable'])
    expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
    expect(answer.headers).not.toHaveProperty('etag')
    expect(answer.headers).not.toHaveProperty('content-disposition')
  })

  it('in a format there is not are refused', async () => {
    const { get } = application(ended)
    const answer = await get(`${results}?format=xml`)
    expect([answer.statusCode, answer.json().error.param]).toEqual([400, 'format'])
  })
})
