import { once } from 'node:events'
import { gunzipSync, zstdDecompressSync } from 'node:zlib'
import { describe, expect, it, vi } from 'vitest'
import type { ResultsQuery } from '../../../schemas/api/results.ts'
import { packChecks } from '../../../services/cache/evidence.ts'
import type { IngestDeps } from '../../../services/ingest/deps.ts'
import type { ApiException } from '../../../services/ingest/errors.ts'
import {
  createRowText, RESULT_TYPES, type ResultForm, buildSelection,
} from '../../../services/ingest/results-response.ts'
import {
  listColumns, listJsonFields, listRowFields,
} from '../../../services/jobs/results/columns.ts'
import type { RowOptions, Rows } from '../../../services/jobs/results/results.ts'
import { cursorAfter } from '../../../services/jobs/results/provisional.ts'
import {
  application, closedJob, JOB_ID, jobOf, listen, MANIFEST, outage, talk,
} from './doubles.ts'

const CSV = 'row,input\r\n1,+12127365000\r\n'
const EMPTY = '{"data":[],"has_more":false,"next_cursor":null}'
const job = closedJob()
const columns = listColumns('phone-validation')
const cellsOf = (values: Readonly<Record<string, string>>) =>
  columns.map(name => values[name] ?? '')
const cells = cellsOf({ row: '8', status: 'valid', source: 'live' })

/** An interface with a job that has ended; `calls` are the reads of its rows. */
function ended (more: Partial<IngestDeps> = {}, rows: Rows = []) {
  const calls: (RowOptions | 'file')[] = []
  const { app, send } = application({
    readRecentJob: async () => job,
    findArchived: async () => ({ job, manifest: MANIFEST }),
    rows: async function * (_job, _manifest, options = {}) {
      calls.push(options)
      yield rows
    },
    csvStream: async function * () { calls.push('file'); yield CSV },
    ...more,
  })
  const ask = (method: string, query: string, headers: Record<string, string>) =>
    send(method, `/jobs/${JOB_ID}/results${query}`, { headers })
  const read = (query = '', headers: Readonly<Record<string, string>> = {}) =>
    ask('GET', query, headers)
  const tag = async (query = '', headers = {}) => (await read(query, headers)).headers.etag ?? ''
  return { app, ask, read, tag, calls }
}

describe('the form of results', () => {
  it.each([
    ['', undefined, 'text/csv'], ['', '', 'text/csv'], ['', '*/*', 'text/csv'],
    ['', 'text/*', 'text/csv'], ['', 'application/*', 'application/json'],
    ['', 'application/json', 'application/json'], ['', 'application/x-ndjson', 'x-ndjson'],
    ['', 'text/csv;q=0.1, application/x-ndjson;q=0.2', 'x-ndjson'],
    ['', 'application/json, text/csv', 'text/csv'],
    ['', 'TEXT/CSV; header=present; q=0.5', 'text/csv'],
    ['?format=jsonl', '*/*', 'x-ndjson'],
    ['?limit=5', '*/*', 'application/json'], ['?types=text', undefined, 'application/json'],
    ['?types=text', 'application/x-ndjson', 'x-ndjson'], ['?delimiter=tab', 'text/*', 'text/csv'],
    ['?format=csv', 'application/json;q=0.9, text/csv;q=0.1', 'text/csv'],
  ])('is chosen by the query %j, then by the header %j: %s', async (query, accept, type) => {
    const answer = await ended().read(query, accept === undefined ? {} : { accept })
    expect(answer.headers['content-type']).toContain(type)
  })

  it.each([
    ['', 'image/png', Object.values(RESULT_TYPES)],
    ['', 'text/*;q=0, application/*;q=0.0', Object.values(RESULT_TYPES)],
    ['?format=json', 'text/csv', ['application/json']],
    ['?format=json', '*/*, application/json;q=0', ['application/json']],
  ])('is none for the query %j and the header %s', async (query, accept, available) => {
    const answer = await ended().read(query, { accept })
    expect([answer.statusCode, answer.json().error])
      .toMatchObject([406, { code: 'not_acceptable', available }])
  })

  it.each([
    ['?format=jsonl&limit=7', 'limit', 'limit is for the form json only. Leave it out, or send ' +
      'format=json.'],
    ['?format=json&safe=spreadsheet', 'safe', 'safe is for the form csv only. Leave it out, or ' +
      'send format=csv.'],
    ['?format=jsonl&delimiter=tab', 'delimiter', 'delimiter is for the form csv only. Leave it ' +
      'out, or send format=csv.'],
    ['?types=text&format=csv', 'types', 'types is for the form json or jsonl only. Leave it ' +
      'out, or send format=json.'],
    [`?format=json&cursor=${Buffer.from('v1:-7').toString('base64url')}`, 'cursor', /not valid/],
    [`?format=json&cursor=${Buffer.from('v2:7').toString('base64url')}`, 'cursor', /not valid/],
    ['?format=json&columns=row,mcc', 'columns', /columns\[1\] must be|has mcc, which is not a/],
  ])('is not sent for the query %s', async (query, param, message) => {
    const { read, calls } = ended()
    const answer = await read(query)
    expect([answer.statusCode, answer.json().error.param, calls]).toEqual([400, param, []])
    expect(answer.json().error.message).toEqual(expect.stringMatching(message))
  })
})

describe('a result file', () => {
  it('is an attachment of CSV, compressed as is liked most', async () => {
    const { read } = ended()
    const plain = await read()
    expect([plain.statusCode, plain.body]).toEqual([200, CSV])
    expect(plain.headers).toMatchObject({
      'content-type': 'text/csv; charset=utf-8; header=present',
      'content-disposition': `attachment; filename="${JOB_ID}.csv"`,
      vary: 'Accept, Accept-Encoding',
      'cache-control': 'private, no-cache',
    })
    const open = { gzip: gunzipSync, zstd: zstdDecompressSync } as const
    for (const [wish, coding] of [
      ['gzip', 'gzip'], ['x-gzip', 'gzip'], ['*', 'gzip'], ['gzip;q=0.0', undefined],
      ['br', undefined], ['*;q=0', undefined], ['identity, *;q=0.5', 'gzip'],
      ['br, gzip;q=0.5', 'gzip'], ['gzip, deflate, br, zstd', 'zstd'], ['zstd', 'zstd'],
      ['zstd;q=0.5, gzip', 'gzip'], ['zstd;q=0, gzip;q=0.1', 'gzip'], ['zstd, *', 'zstd'],
    ] as const) {
      const answer = await read('', { 'accept-encoding': wish })
      expect([wish, answer.headers['content-encoding']]).toEqual([wish, coding])
      const bytes = answer.rawPayload
      expect(String(coding === undefined ? bytes : open[coding](bytes))).toBe(CSV)
    }
  })

  it.each(['csv', 'csv&safe=spreadsheet', 'json', 'jsonl', 'xlsx', 'parquet'])(
    'that cannot be read is an error: %s', async format => {
      const failing = async function * () { throw outage }
      // No row is read for the first line.
      const csvStream = async function * () { yield 'row,input\r\n'; throw outage }
      const answer = await ended({ csvStream, rows: failing }).read(`?format=${format}`)
      expect([answer.statusCode, answer.json().error.code])
        .toEqual([503, 'temporarily_unavailable'])
      expect(answer.headers['content-type']).toBe('application/json; charset=utf-8')
      expect(answer.headers).not.toHaveProperty('etag')
      expect(answer.headers).not.toHaveProperty('content-disposition')
    })

  it('is closed at the store when the client goes away', async () => {
    const closed = Promise.withResolvers<string>()
    const { app } = ended({
      csvStream: async function * () {
        try {
          for (let row = 1; ; row++) yield `${row}\r\n`
        } finally {
          closed.resolve('closed')
        }
      },
    })
    const { socket } = talk(await listen(app),
      `GET /api/v1/jobs/${JOB_ID}/results HTTP/1.1\r\nhost: x\r\n` +
      'authorization: Bearer live\r\n\r\n')
    await once(socket, 'data')
    socket.destroy()
    expect(await closed.promise).toBe('closed')
  })
})

describe('the tag of results', () => {
  it('is one for each form, page, filter and coding, and the same for the same', async () => {
    const { tag } = ended()
    const queries = ['', '?format=json', '?format=jsonl', '?format=json&limit=5',
      '?format=json&status=valid', '?format=json&source=live', '?status=valid', '?source=live',
      '?status=valid,risky', '?reason=timeout', '?line_type=mobile', '?country=US',
      '?duplicates=drop', '?columns=row', '?columns=row,input', '?columns=input,row',
      '?columns=row&duplicates=drop']
    const tags = await Promise.all(queries.map(query => tag(query)))
    for (const coding of ['gzip', 'zstd']) {
      for (const query of ['', '?format=json']) {
        tags.push(await tag(query, { 'accept-encoding': coding }))
      }
    }
    expect(new Set(tags).size).toBe(queries.length + 4)
    for (const tag of tags) expect(tag).toMatch(/^"[0-9a-f]{32}(-[\w-]+)?"$/)
    expect(await tag('?format=json&limit=100')).toBe(tags[1])
    expect(await tag('?country=us')).toBe(await tag('?country=US'))
  })

  it('is made of the blocks and their rows, in whatever order they are named', async () => {
    const [first] = MANIFEST
    const second = { ...first!, chunk: 1, digest: 'cd'.repeat(32) }
    const won = { ...first!, won: Buffer.of(0xff, 0x01) }
    const tags = await Promise.all([[first!, second], [second, first!], [first!], [won], []]
      .map(manifest => ended({ findArchived: async () => ({ job, manifest }) }).tag()))
    expect(tags[0]).toBe(tags[1])
    expect(new Set(tags).size).toBe(4)
  })

  it.each(['', '?format=json'])('spares reading what is known: %j', async query => {
    const { read, tag, calls } = ended()
    const known = await tag(query)
    const before = calls.length
    for (const header of [known, `W/${known}`, `"x", ${known}`, '*']) {
      const again = await read(query, { 'if-none-match': header })
      expect([again.statusCode, again.body, again.headers.etag]).toEqual([304, '', known])
      expect(again.headers['cache-control']).toBe('private, no-cache')
    }
    expect(calls).toHaveLength(before)
    for (const header of ['"other"', '']) {
      expect((await read(query, { 'if-none-match': header })).statusCode).toBe(200)
    }
  })

  it('comes with the headers of GET to HEAD, for which no block of a file is read', async () => {
    const { ask, read, calls } = ended()
    const zipped = { 'accept-encoding': 'gzip' }
    const file = await ask('HEAD', '', zipped)
    expect([file.statusCode, file.body, calls]).toEqual([200, '', []])
    const { headers } = await read('', zipped)
    for (const name of ['etag', 'content-type', 'content-disposition', 'content-encoding', 'vary',
      'content-length', 'ratelimit-limit']) {
      expect([name, file.headers[name]]).toEqual([name, headers[name]])
    }
    const page = await ask('HEAD', '?format=json', {})
    expect([page.statusCode, page.body, page.headers['content-length']])
      .toEqual([200, '', String(EMPTY.length)])
    expect((await ask('HEAD', '', { authorization: 'Bearer writer' })).statusCode).toBe(403)
  })
})

it('a page of results ends with the row that fills it', async () => {
  const input = 'x'.repeat(1_000_000)
  const rows = Array.from({ length: 12 }, (_, at) => cellsOf({ row: String(at + 1), input }))
  const { data, has_more: hasMore } = (await ended({}, rows).read('?format=json')).json()
  expect(data.map(({ row }: { row: number }) => row)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9])
  expect(hasMore).toBe(true)
})

describe('a row as JSON', () => {
  const fields = listRowFields('telegram')
  const rowOf = (values: Readonly<Record<string, string>>) =>
    JSON.parse(`{${createRowText('telegram', { columns: fields })(
      fields.map(name => values[name] ?? ''))}}`)

  it('has the checks that were made, with their outcomes', () => {
    const checks = String(packChecks({ vendor: 'passed', domain: 'caution' }))
    expect([
      rowOf({ source: 'live', checks }), rowOf({ source: 'none', checks: '0' }),
      rowOf({ source: 'preflight' }), rowOf({ source: 'preflight', checks: '0' }),
      rowOf({ source: 'live' }),
    ].map(row => row.checks)).toEqual([
      { syntax: 'passed', domain: 'caution', vendor: 'passed' }, { syntax: 'passed' },
      { syntax: 'failed' }, { syntax: 'passed' }, null,
    ])
  })

  it('is the same in a stream, however many values a column has', async () => {
    const names = listRowFields('phone-validation')
    const sources = ['live', 'preflight', 'none', 'duplicate']
    const rows = Array.from({ length: 2_500 }, (_, at) => {
      const values: Readonly<Record<string, string | undefined>> = {
        row: String(at + 1),
        input: at % 7 === 0 ? '' : `"${at % 1_700}\n"`,
        source: sources[at % 4],
        checks: at % 3 === 0 ? '' : String(packChecks({ vendor: at % 2 ? 'passed' : 'failed' })),
      }
      return names.map(name => values[name] ?? '')
    })
    const alone = (cells: readonly string[]) => createRowText(
      'phone-validation', { columns: listJsonFields('phone-validation') })(cells)
    const { body } = await ended({}, rows).read('?format=jsonl')
    expect(body).toBe(rows.map(cells => `{${alone(cells)}}\n`).join(''))
  })
})

it.each(['xlsx', 'parquet'] as const)('results as a file that packs itself ' +
  'are sent as %s, without a content coding', async form => {
  const { read, tag, calls } = ended({}, [cells])
  const answer = await read(`?format=${form}`, { 'accept-encoding': 'gzip' })
  expect(answer.headers).toMatchObject({
    'content-type': RESULT_TYPES[form],
    'content-disposition': `attachment; filename="${JOB_ID}.${form}"`,
  })
  expect(answer.headers['content-encoding']).toBeUndefined()
  expect(answer.rawPayload.toString('latin1', 0, 2)).toBe(form === 'xlsx' ? 'PK' : 'PA')
  expect(calls).toMatchObject([{ withReference: false, keep: undefined }])
  const tags = [await tag(`?format=${form}`), await tag(), await tag('?format=jsonl'),
    await tag(`?format=${form}&status=valid`)]
  expect(new Set(tags).size).toBe(4)
  expect((await read(`?format=${form}`, { 'if-none-match': tags[0] ?? '' })).statusCode).toBe(304)
  expect((await read('', { accept: RESULT_TYPES[form] })).headers['content-type'])
    .toBe(RESULT_TYPES[form])
})

describe('the selection of results', () => {
  const select = (query: ResultsQuery, form: ResultForm = 'csv') =>
    buildSelection(query, { service: 'email-validation', ids: false, form })

  it('is everything that the form has by default, else the columns of the query', () => {
    expect(select({})).toMatchObject({
      keep: undefined, columns: listColumns('email-validation'), isWhole: true,
    })
    expect(select({}, 'jsonl').columns).toEqual(listRowFields('email-validation'))
    expect(select({ columns: ['status', 'email'] }))
      .toMatchObject({ columns: ['status', 'email'], isWhole: false })
  })

  it('of one row for each mailbox is for e-mail addresses only', () => {
    const job = { service: 'whatsapp', ids: false, form: 'csv' } as const
    const faultOf = (...given: Parameters<typeof buildSelection>) => {
      try {
        buildSelection(...given)
      } catch (error) {
        return (error as ApiException).fault
      }
    }
    expect(faultOf({ duplicates: 'mailbox' }, job)).toMatchObject({
      code: 'invalid_request',
      param: 'duplicates',
      message: expect.stringContaining('is for e-mail addresses, and the job is of whatsapp'),
    })
    const running = { service: 'email-validation', ids: false, form: 'jsonl' } as const
    expect(faultOf({ duplicates: 'mailbox', provisional: 'true' }, running)).toMatchObject({
      code: 'invalid_request', message: expect.stringContaining('is for jobs that have ended'),
    })
  })

  it('of one row for each mailbox is not that without duplicates', () => {
    expect(select({ duplicates: 'mailbox' }).word).not.toBe(select({ duplicates: 'drop' }).word)
  })
})

describe('a file for spreadsheets', () => {
  const made = (columns?: readonly string[]) => ended({
    openHeader: async () =>
      ({ metadata: { file: 'Liste.csv' }, webhookUrl: '', ...columns && { columns } }),
  }).read('?safe=spreadsheet')

  it('begins with a byte order mark', async () => {
    expect((await made()).rawPayload).toEqual(Buffer.from(`\ufeff${CSV}`))
  })

  it('has the name of a job that was made of no file', async () => {
    expect((await made()).headers['content-disposition'])
      .toBe(`attachment; filename="${JOB_ID}.csv"`)
  })
})

it('the id of an input is no column of a job without ids', async () => {
  for (const query of ['?columns=id', '?format=jsonl&columns=row,id']) {
    const answer = await ended().read(query)
    expect([answer.statusCode, answer.json().error.param]).toEqual([400, 'columns'])
    expect(answer.json().error.message).toContain('as no input of the job has an id')
  }
  const [row] = (await ended({}, [cells]).read('?format=json')).json().data
  expect(row).not.toHaveProperty('id')
})

describe('the rows of a running job', () => {
  /** Reads five pieces of a job, the third of which takes a second; returns the pauses between. */
  async function readPieces (isEnded: (pauses: number) => boolean) {
    const state = () => isEnded(pauses.length) ? closedJob() : jobOf({ status: 'verifying' })
    const pauses: number[] = []
    let nowMs = 0
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const { get } = application({
      readRecentJob: async () => state(),
      findArchived: async () => ({ job, manifest: MANIFEST }),
      provisionalRows: async ({ blocks }) => ({
        rows: (async function * () {
          for (const row of ['1', '2', '3', '4', '5']) {
            nowMs += row === '3' ? 1_000 : 10
            yield { rows: [cellsOf({ row })], window: cursorAfter(blocks, 0) }
          }
        })(),
        next: cursorAfter(blocks, 0),
        isComplete: false,
      }),
      waitForJob: async ({ isDone, timeoutMs }) => {
        pauses.push(timeoutMs)
        nowMs += timeoutMs
        expect([isDone(jobOf()), isDone(closedJob())]).toEqual([false, true])
        return state()
      },
    })
    const { body } = await get(`/jobs/${JOB_ID}/results?format=jsonl&provisional=true&columns=row`)
    vi.restoreAllMocks()
    expect(body.trim().split('\n').map(line => JSON.parse(line).row)).toEqual([1, 2, 3, 4, 5])
    return pauses
  }

  it('come with pauses of nine times the work for them, at most five seconds', async () => {
    expect(await readPieces(() => false)).toEqual([90, 90, 5_000, 90])
  })

  it('come without pauses once it has ended', async () => {
    expect(await readPieces(() => true)).toEqual([])
    expect(await readPieces(pauses => pauses > 1)).toEqual([90, 90])
  })
})
