import { describe, expect, it } from 'vitest'
import { ROW_SOURCES } from '../../../schemas/api/verdicts.ts'
import type { ResultRow } from '../../../services/client/client.ts'
import { taggedTenant } from '../../../services/money/redis-keys.ts'
import { parseCsv } from '../../support/stacks/environment.ts'
import { ended, MOMENT, newCustomer, newNumbers, service, shared, whileHalted }
  from './support.ts'

const STANDARD = [
  'row', 'input', 'phone', 'e164', 'country', 'region', 'locality', 'line_type', 'carrier',
  'status', 'source', 'confidence', 'generation_basis', 'reason', 'checked_at', 'expires_at',
  'duplicate_of',
]
const CARRIER = ['timezone', 'mcc', 'mnc', 'ported', 'extension', 'vanity', 'voip_type']
const FURTHER: Readonly<Record<string, readonly string[]>> = {
  'phone-validation': ['timezone', 'national_format', 'extension', 'vanity', 'voip_type'],
  'carrier-single': CARRIER,
  'carrier-lookup': CARRIER,
  whatsapp: ['whatsapp', 'extension', 'vanity'],
  telegram: ['telegram', 'extension', 'vanity'],
  'email-validation': [
    'email', 'domain', 'disposable', 'role', 'free', 'catch_all', 'mx_found', 'suggestion',
    'mx_record', 'mail_provider', 'normalized', 'spf', 'dmarc',
  ],
}
const LINE_TYPES = [
  'mobile', 'landline', 'fixed_line_or_mobile', 'voip', 'toll_free', 'premium_rate', 'shared_cost',
  'personal_number', 'pager', 'uan', 'voicemail', 'unknown',
]
const PHONES = [
  '+12127360008', '+12127360001', '+12127360002', '+12127360003', '+12127360008', 'call me',
]
const EMAILS = ['jane@example.com', 'invalid@example.com', 'role@example.com', 'x', 'x']
const ODD = [
  ' +1 212-736-5000\t', '"quoted", twice', 'a line\r\nand another\n', '=HYPERLINK("x")', '+1-2',
  '@me', '\t+1', '-x', '', 'é e\u0301 \u{1F600}', '\u202e5000', 'a\u0000b', "'quoted'",
  'jane\ud800@example.com', '\udc00\ud800',
]
/** What a file has to quote, or may take for the end of a row or a cell. */
const QUOTED = ['"', '""', ',', '","', '\n', '\r\n', '\r', 'a\r\nb', '"a"', 'a,b', ' "a" ', ';',
  '\u2028', '\u0085', "'", '\\"', '\\', 'a""b,\r\n"c"', 'row,input']
const FORMULAS = ['=cmd()', '=1+1', "+cmd|'/c calc'!A0", '-2+3+cmd', '@SUM(1)', '\t=1', '\r=1',
  '=HYPERLINK("http://x")', '+1;x', '＝1']
/** They begin like formulas, and are none. */
const NUMBERS = ['-2+3', '+1 (212) 736-5000', '-', '+', '+12127365000']

async function all (rows: AsyncIterable<ResultRow>): Promise<ResultRow[]> {
  const list: ResultRow[] = []
  for await (const row of rows) list.push(row)
  return list
}

describe.concurrent('the result file', () => {
  it('is UTF-8 without byte order mark, with CRLF, an attachment named after the job',
    async () => {
      const { test } = await newCustomer()
      const { job } = await ended(test, { service, inputs: ['+12127365000', 'é'] })
      const path = `/jobs/${job.id}/results`
      const plain = await test.ask(path, { headers: { 'accept-encoding': 'identity' } })
      expect(plain.headers.get('content-type')).toBe('text/csv; charset=utf-8; header=present')
      expect(plain.headers.get('content-disposition'))
        .toBe(`attachment; filename="${job.id}.csv"`)
      expect(plain.headers.get('content-encoding')).toBe(null)
      expect(plain.text).toMatch(/^row,input,/)
      expect(plain.text.split('\r\n').map(line => /[\r\n]/.test(line)))
        .toEqual(Array(4).fill(false))
      expect(plain.text.endsWith('\r\n')).toBe(true)
      for (const coding of ['gzip', 'zstd']) {
        const zipped = await test.ask(path, { headers: { 'accept-encoding': coding } })
        expect([zipped.headers.get('content-encoding'), zipped.text]).toEqual([coding, plain.text])
      }
      const etag = plain.headers.get('etag') ?? ''
      const kept = await test.ask(path, {
        headers: { 'accept-encoding': 'identity', 'if-none-match': etag },
      })
      expect([etag.length > 2, kept.status, kept.text]).toEqual([true, 304, ''])
    })

  it('has every row once, in order, its input byte for byte as submitted', async () => {
    const { test } = await newCustomer()
    const inputs = [...ODD, ...QUOTED, ...FORMULAS, ...NUMBERS]
    const { job, rows } = await ended(test, { service, inputs })
    // Half of a character has no bytes in UTF-8, but an escape in JSON.
    expect(rows.map(row => row.input)).toEqual(inputs.map(text => text.toWellFormed()))
    expect(rows.map(row => row.row)).toEqual(inputs.map((_, index) => String(index + 1)))
    expect((await all(test.client.resultLines(job.id))).map(row => row.input)).toEqual(inputs)
    expect((await all(test.client.resultRows(job.id))).map(row => row.input)).toEqual(inputs)
  })

  it('writes numbers as people do in phone and without spaces in e164', async () => {
    const { test } = await newCustomer()
    const inputs = ['212.736.5000', '+442079460958', '0049 30 901820']
    const { rows } = await ended(test, { service, inputs, countryCode: 'US' })
    expect(rows.map(({ phone, e164, country }) => [phone, e164, country])).toEqual([
      ['+1 212 736 5000', '+12127365000', 'US'], ['+44 20 7946 0958', '+442079460958', 'GB'],
      ['+49 30 901820', '+4930901820', 'DE'],
    ])
  })

  it('has the standard columns, then those of the service; ' +
    'closed ones from their lists, confidence from 0 to 100, generation_basis never', async () => {
    const { test } = await newCustomer()
    await Promise.all(Object.entries(FURTHER).map(async ([slug, further]) => {
      const inputs = slug === 'email-validation' ? EMAILS : PHONES
      const { rows } = await ended(test, { service: slug, inputs })
      expect(Object.keys(rows[0] ?? {})).toEqual([...STANDARD, ...further])
      for (const row of rows) {
        expect(['valid', 'invalid', 'risky', 'unknown']).toContain(row.status)
        expect(['live', 'cache', 'duplicate', 'preflight', 'none']).toContain(row.source)
        expect(['', ...LINE_TYPES]).toContain(row.line_type)
        expect(row.reason).toMatch(/^[a-z]+(_[a-z]+)*$/)
        expect(row.confidence).toMatch(/^(\d|[1-9]\d|100)$/)
        expect(row.generation_basis).toBe('')
      }
      const before = slug === 'email-validation' ? 'preflight' : 'duplicate'
      expect(rows.map(row => row.source).slice(-2)).toEqual([before, 'preflight'])
    }))
  })

  it('names the holder of the number range as carrier', async () => {
    const { live } = await newCustomer()
    const { rows } = await ended(live, { service: 'carrier-lookup', inputs: ['+447400123456'] })
    expect(rows[0]).toMatchObject({ status: 'valid', line_type: 'mobile', country: 'GB' })
    expect(rows[0]?.carrier).toMatch(/\w/)
  })

  it('has checked_at and expires_at on every row, equal without a verdict', async () => {
    const { live } = await newCustomer()
    const startedAt = new Date().toISOString()
    const { job, rows } = await ended(live, { service, inputs: PHONES })
    const days = (row: Readonly<Record<string, string>>) =>
      (Date.parse(row.expires_at ?? '') - Date.parse(row.checked_at ?? '')) / 86_400_000
    for (const { checked_at: at = '', expires_at: until = '' } of rows) {
      expect([at, until]).toEqual([expect.stringMatching(MOMENT), expect.stringMatching(MOMENT)])
      expect([at >= startedAt, at <= (job.completedAt ?? '')]).toEqual([true, true])
    }
    expect(rows.map(days)).toEqual([90, 90, 90, 0, 90, 0])
  })
})

describe.concurrent('rows of a job', () => {
  it('that repeat a row, by canonical form, repeat its verdict and name the lowest row; ' +
    'e-mail domains are compared in lower case and by IDNA, local parts without case', async () => {
    const { test } = await newCustomer()
    const inputs = ['+12127360002', 'x', '(212) 736-0002', '+1 212 736 0002']
    const phones = await ended(test, { service, inputs, countryCode: 'US' })
    expect(phones.created.preflight).toMatchObject({ duplicateRows: 2, invalidRows: 1 })
    const [original, , ...copies] = phones.rows
    for (const [at, copy] of copies.entries()) {
      const { row: _row, input: _input, ...same } = original ?? {}
      expect(copy).toEqual({
        ...same, row: String(at + 3), input: inputs[at + 2], source: 'duplicate', duplicate_of: '1',
      })
    }
    const emails = await ended(test, {
      service: 'email-validation',
      inputs: [
        'Jane@EXAMPLE.com', 'Jane@example.com', 'jane@example.com', 'a@b\u00fccher.example',
        'a@xn--bcher-kva.example',
      ],
    })
    expect(emails.rows.map(row => row.duplicate_of)).toEqual(['', '1', '1', '', '4'])
  })

  it('that are possible but unassigned numbers are checked, impossible ones are invalid',
    async () => {
      const { live } = await newCustomer()
      const inputs = ['+15555555555', '+1212736500', '+121273650001', '+999123456789', '12']
      const { created, rows } = await ended(live, { service: 'carrier-lookup', inputs })
      expect(created.preflight).toMatchObject({ freshChecks: 1, invalidRows: 4 })
      expect(rows.map(row => [row.status, row.source])).toEqual([
        ['unknown', 'none'], ...Array(4).fill(['invalid', 'preflight']),
      ])
    })
})

describe.concurrent('results', () => {
  it('as JSON come by pages, filtered by status and source', async () => {
    const { test } = await newCustomer()
    const inputs = [...newNumbers(120), ...PHONES]
    const { job, rows } = await ended(test, { service, inputs })
    const first = await test.client.resultsPage(job.id)
    expect([first.data.length, first.has_more]).toEqual([100, true])
    const rest = await test.client.resultsPage(job.id, { cursor: first.next_cursor ?? '' })
    expect([rest.data.length, rest.has_more, rest.next_cursor]).toEqual([26, false, null])
    expect([...first.data, ...rest.data].map(row => row.row)).toEqual(inputs.map((_, at) => at + 1))
    for (const status of ['valid', 'invalid', 'risky', 'unknown'] as const) {
      for (const source of [...ROW_SOURCES, undefined]) {
        const wanted = rows.filter(row => row.status === status &&
          (source === undefined || row.source === source)).map(row => Number(row.row))
        const found = await all(test.client.resultRows(job.id, {
          status, ...(source === undefined ? {} : { source }),
        }))
        expect([status, source, found.map(row => row.row)]).toEqual([status, source, wanted])
      }
    }
  })

  it('have the same rows and columns in every form, in the order that was asked for', async () => {
    const { test } = await newCustomer()
    const { job, rows } = await ended(test, { service, inputs: PHONES })
    const wanted = rows.filter(({ source }) => source !== 'duplicate')
      .map(({ status, row, source }) => ({ status, row, source }))
    const query = 'status=valid,invalid,risky,unknown&duplicates=drop&columns=status,row,source'
    const [csv, page, lines] = await Promise.all(['csv', 'json', 'jsonl'].map(format =>
      test.ask(`/jobs/${job.id}/results?${query}&format=${format}`)))
    expect(csv!.text.split('\r\n')[0]).toBe('status,row,source')
    expect(parseCsv(csv!.text)).toEqual(wanted)
    expect(page!.json.data).toEqual(wanted.map(cells => ({ ...cells, row: Number(cells.row) })))
    expect(lines!.text.trimEnd().split('\n').map(line => JSON.parse(line)))
      .toEqual(page!.json.data)
    const tags = [csv, page, lines].map(answer => answer!.headers.get('etag'))
    expect([tags.includes(null), new Set(tags).size]).toEqual([false, 3])
  })

  it('as JSON have true, false and numbers, with types=text the texts of before',
    async () => {
      const { test } = await newCustomer()
      const truths = { true: true, false: false }
      await Promise.all(Object.keys(FURTHER).map(async slug => {
        const inputs = slug === 'email-validation' ? EMAILS : PHONES
        const { job, rows } = await ended(test, { service: slug, inputs })
        const numbers = ['row', 'confidence', 'duplicate_of']
        const asJson = (cells: Readonly<Record<string, string>>, texts: object) =>
          Object.fromEntries(Object.entries(cells).map(([name, cell]) => [name,
            cell === ''
              ? null
              : numbers.includes(name) ? Number(cell) : texts[cell as keyof typeof texts] ?? cell]))
        const withoutChecks = ({ checks: _, ...row }: ResultRow) => row
        const typed = await all(test.client.resultRows(job.id))
        expect(typed.map(withoutChecks)).toEqual(rows.map(cells => asJson(cells, truths)))
        expect(await all(test.client.resultLines(job.id))).toEqual(typed)
        const texts = await all(test.client.resultLines(job.id, { types: 'text' }))
        expect(texts.map(withoutChecks)).toEqual(rows.map(cells => asJson(cells, {})))
      }))
    })

  it('as JSON lines and as file are streamed by the client', async () => {
    const { test } = await newCustomer()
    const { job } = await ended(test, { service, inputs: PHONES })
    const pieces: Uint8Array[] = []
    for await (const piece of await test.client.resultsFile(job.id)) pieces.push(piece)
    expect(Buffer.concat(pieces).toString()).toBe(await test.client.results(job.id))
    expect(await all(test.client.resultLines(job.id)))
      .toEqual((await test.client.resultsPage(job.id)).data)
  })

  it('with safe=spreadsheet guard cells that begin like formulas and are no numbers',
    async () => {
      const { test } = await newCustomer()
      const inputs = [...ODD, ...FORMULAS, ...NUMBERS]
      const { job, rows } = await ended(test, { service, inputs })
      const guarded = parseCsv(await test.client.results(job.id, { safe: 'spreadsheet' }))
      const guardedCell = (cell: string) => {
        if (!/[^0-9 ()+./-]/.test(cell)) return cell
        // What spreadsheets of other locales take for a separator begins a cell as well.
        const within = cell.replace(/([;\t\r\n])([=+\-@＝＋－＠])/g, "$1'$2")
        return /^[=+\-@\t\r\n＝＋－＠]/.test(cell) ? `'${within}` : within
      }
      const expected = rows.map(row => Object.fromEntries(
        Object.entries(row).map(([name, cell]) => [name, guardedCell(cell)])))
      expect(guarded).toEqual(expected)
      expect(guarded.map(row => row.input).filter(cell => cell?.startsWith("'"))).toEqual([
        '\'=HYPERLINK("x")', "'@me", "'\t'+1", "'-x", "'quoted'",
        // A tab or a line break may be taken for the end of a cell.
        ...FORMULAS.map(it => `'${it.replace(/^[\t\r](?==)/, "$&'")}`),
      ])
    })

  it('are 410 after their retention', async () => {
    const { test } = await newCustomer()
    const { job } = await ended(test, { service, inputs: ['x'] })
    const record = `job:${taggedTenant(test.tenant)}:${job.id}`
    const dayMs = 86_400_000
    const age = (days: number) =>
      shared().redis.hset(record, 'endedAtMs', String(Date.now() - days * dayMs))
    await age(89.9)
    expect((await test.ask(`/jobs/${job.id}/results`)).status).toBe(200)
    await age(90.1)
    for (const query of ['', '?format=json', '?format=jsonl']) {
      const { status, code } = await test.ask(`/jobs/${job.id}/results${query}`)
      expect([status, code]).toEqual([410, 'results_expired'])
    }
    expect((await test.ask(`/jobs/${job.id}`)).status).toBe(200)
  })
})

it('results of a job that runs, requested before the end are 409 with Retry-After', async () => {
  const { test } = await newCustomer()
  await whileHalted('verify-1', async () => {
    const { id } = await test.client.createJob({ service, inputs: newNumbers(1) })
    const early = await test.ask(`/jobs/${id}/results`)
    expect([early.status, early.code]).toEqual([409, 'job_not_completed'])
    expect(Number(early.headers.get('retry-after'))).toBeGreaterThan(0)
  })
})
