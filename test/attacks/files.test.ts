import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { MAX_NAMES_BYTES } from '../../schemas/files/csv-format.ts'
import { usageOf } from '../bench/usage.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { lowestCost } from '../support/lowest-cost.ts'
import { workbookOf } from '../support/workbooks.ts'

/** What a service may take, by the alert on its memory. */
const MAX_PEAK_MB = 700
const MB = 1_024 * 1_024
const FULL_BYTES = 33 * MB

const environment = closeAfterAll(await startEnvironment({}, { apart: ['ingest'] }))
const pid = pidOfIngest()

function pidOfIngest (): number {
  const ingest = environment.services.list().find(({ name }) => name.startsWith('ingest-'))
  if (ingest?.pid === undefined) throw new Error('no process of ingest')
  return ingest.pid
}

const BOUNDARY = 'XXboundaryXX'
const FORM = `multipart/form-data; boundary=${BOUNDARY}`
const QUERY = 'service=phone-validation&column=1&header=true'
/** A file of so many bytes, with as many rows as a file may have, or fewer. */
function honest (bytes: number, rows = 100_000): string {
  const width = Math.max(Math.ceil(bytes / rows), 20)
  const count = Math.floor(bytes / width)
  const lines = Array.from({ length: count }, (_, row) =>
    `+1212${String(row).padStart(7, '0')},`.padEnd(width - 1, 'note '))
  return `phone,note\n${lines.join('\n')}`
}

const formOf = (file: string) => `--${BOUNDARY}\r\nContent-Disposition: form-data; name="file"; ` +
  `filename="a.csv"\r\n\r\n${file}\r\n--${BOUNDARY}--\r\n`

/** Sends a file, compressed, and waits for the answer. */
async function post (body: string, type = 'text/csv', path = 'quotes') {
  const response = await fetch(`${environment.baseUrl}/${path}?${QUERY}`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${environment.keys.test}`,
      'content-type': type,
      'content-encoding': 'gzip',
    },
    body: gzipSync(body),
  })
  return { status: response.status, body: await response.json() as Record<string, unknown> }
}

/** The CPU time of the process that reads a file for a quote, answered with one of `statuses`. */
async function costOf (body: string, type = 'text/csv', statuses = [200]): Promise<number> {
  const before = usageOf(pid).cpuSeconds
  const { status } = await post(body, type)
  expect(statuses).toContain(status)
  return usageOf(pid).cpuSeconds - before
}

// Compiles the code of all of the paths.
await costOf(honest(2 * MB))
await costOf(formOf(honest(2 * MB)), FORM)

/** `properties/foreign-bytes` has all shapes; here the whole process reads them, and lives. */
describe('a file costs what an honest one of its bytes does', () => {
  const part = `--${BOUNDARY}\r\nContent-Disposition: form-data; name="a"\r\n\r\n\r\n`
  const fill = (unit: string, bytes: number) => unit.repeat(Math.floor(bytes / unit.length))
  const text = 'text/csv'

  it.each<[what: string, make: () => string, type: string]>([
    ['as many parts as a body has room for', () => fill(part, FULL_BYTES), FORM],
    ['30 MB of quoted blank lines', () => `1234567\n${fill('""\n', 30 * MB)}`, text],
    ['30 MB of delimiters', () => `a,b\n${fill(`1${','.repeat(400)}\n`, 30 * MB)}`, text],
  ])('%s', async (_what, make, type) => {
    const body = make()
    const fair = honest(body.length)
    const most = 3 * await costOf(type === FORM ? formOf(fair) : fair, type)
    expect(await lowestCost(() => costOf(body, type, [200, 400]), most)).toBeLessThanOrEqual(most)
    expect(pidOfIngest()).toBe(pid)
    expect(usageOf(pid).peakMb).toBeLessThan(MAX_PEAK_MB)
  })
})

it('previews of sheets with cells in the last column take little memory', async () => {
  const far = '<row><c r="XFD1"><v>1</v></c></row>'.repeat(1_000)
  const workbook = workbookOf({ rows: `<row><c r="A1"><v>1</v></c></row>${far}` })
  const answers = await Promise.all(Array.from({ length: 8 }, async () =>
    await fetch(`${environment.baseUrl}/file-previews`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${environment.keys.test}`,
        'content-type': 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
      },
      body: new Uint8Array(workbook),
    })))
  expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200))
  expect(pidOfIngest()).toBe(pid)
  expect(usageOf(pid).peakMb).toBeLessThan(MAX_PEAK_MB)
})

describe('results as JSON', () => {
  const ROWS = 1_000
  const READS = 25

  /** The bytes of an answer, which is read and dropped. */
  async function read (path: string): Promise<number> {
    const headers = { authorization: `Bearer ${environment.keys.test}` }
    const response = await fetch(`${environment.baseUrl}/${path}`, { headers })
    expect(response.status).toBe(200)
    let bytes = 0
    for await (const piece of response.body ?? []) bytes += piece.length
    return bytes
  }

  /** A job with these columns; returns where its results are. */
  async function resultsOf (header: string): Promise<string> {
    const { status, body } = await post(`${header}\n${'1\n'.repeat(ROWS)}`, undefined, 'jobs')
    expect(status).toBe(202)
    const id = String(body['id'])
    await environment.test.waitForEnd(id)
    return `jobs/${id}/results?format=json&limit=${ROWS}&join=original`
  }

  /** CPU seconds for a byte of many answers at once. */
  async function costOfReads (path: string): Promise<number> {
    const before = usageOf(pid).cpuSeconds
    const bytes = await Promise.all(Array.from({ length: READS }, () => read(path)))
    return (usageOf(pid).cpuSeconds - before) / bytes.reduce((all, some) => all + some, 0)
  }

  it('with long names are refused before they are made', async () => {
    const names = Array.from({ length: 500 }, (_, at) => `${at}`.padEnd(120, 'n')).join(',')
    const { status, body } = await post(`${names}\n1\n`, undefined, 'jobs')
    expect([status, body['error']]).toMatchObject([400, { code: 'invalid_file', param: 'file' }])
  })

  it('of many columns take no more memory, and no more CPU for a byte', async () => {
    const columns = 250
    const length = Math.floor(MAX_NAMES_BYTES / columns) - 3
    const names = Array.from({ length: columns }, (_, at) => `${at}`.padEnd(length, 'n')).join(',')
    const honestPath = await resultsOf('phone,name')
    const path = await resultsOf(names)
    expect(await read(honestPath)).toBeGreaterThan(0)
    expect(await read(path)).toBeLessThan(9 * MB)
    const most = 2 * await costOfReads(honestPath)
    expect(await lowestCost(() => costOfReads(path), most)).toBeLessThanOrEqual(most)
    expect(pidOfIngest()).toBe(pid)
    expect(usageOf(pid).peakMb).toBeLessThan(MAX_PEAK_MB)
  })
})
