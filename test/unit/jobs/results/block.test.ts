import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type ChunkCoordinates, readMessageRows, createBlock, type RowOutcome, toRowOutcome,
  unresolvableBlock, withoutVerdict,
} from '../../../../services/jobs/results/block.ts'
import { countBits } from '../../../../services/runtime/platform/bitmap.ts'
import { cellsIn } from '../../../support/clickhouse/results.ts'
import { bitmapOf, cachedRecord, JOB, rowsOf, TENANT } from '../../../support/stage-messages.ts'

const subject = { service: 'phone-validation', canonical: '+12127365000', copies: 2 } as const
const terms = { source: 'cache', freshnessMs: 50 } as const

describe('the outcome of a record', () => {
  it.each([
    ['+12127365000', ['+1 212 736 5000', 'US', '(212) 736-5000']],
    ['+80012345678', ['+800 1234 5678', '', '1234 5678']],
  ])('writes %s in each format', (canonical, [phone, ...others]) => {
    const { contact } = toRowOutcome(cachedRecord(), { ...subject, canonical }, terms)
    expect(Object.values(contact)).toEqual([phone, canonical, ...others])
  })

  const contactOf = (canonical: string, fields: Record<string, string>) => {
    const contact = { ...subject, service: 'email-validation', canonical } as const
    return toRowOutcome(cachedRecord({ fields }), contact, terms).contact
  }

  it('splits an address at the last sign, and makes the suggested domain an address', () => {
    expect(contactOf('"a@b"@x.org', { suggestion: '' }))
      .toEqual({ email: '"a@b"@x.org', domain: 'x.org', normalized: '"a@b"@x.org' })
    expect(contactOf('jane@gmial.com', { suggestion: 'gmail.com' })).toEqual({
      email: 'jane@gmial.com',
      domain: 'gmial.com',
      normalized: 'jane@gmial.com',
      suggestion: 'jane@gmail.com',
    })
  })

  it('restores the mail exchange, and says whose it is and which form the mailbox has', () => {
    expect(contactOf('J.Doe+a@firm.org', { mx_record: '*1-org.mail.protection.outlook.com' }))
      .toEqual({
        email: 'J.Doe+a@firm.org',
        domain: 'firm.org',
        normalized: 'j.doe@firm.org',
        mx_record: 'firm-org.mail.protection.outlook.com',
        mail_provider: 'microsoft',
      })
    expect(contactOf('jane+a@firm.org', { mx_record: 'mail.*1.org' })).toMatchObject({
      normalized: 'jane+a@firm.org', mx_record: 'mail.firm.org', mail_provider: 'other',
    })
    // A record of a release that stored no exchange.
    expect(contactOf('J.Doe+a@gmail.com', {})).toEqual({
      email: 'J.Doe+a@gmail.com', domain: 'gmail.com', normalized: 'jdoe@gmail.com',
    })
  })

  it('expires at once and has no source when there is no verdict', () => {
    const record = cachedRecord({ status: 'unknown', reason: 'no_answer', checkedAtMs: 100 })
    expect(toRowOutcome(record, subject, { ...terms, source: 'live' }))
      .toMatchObject({ expiresAtMs: 100, source: 'none' })
  })
})

it('a row without a verdict ' +
  'has what follows from its canonical form, and the check of the syntax', () => {
  expect(withoutVerdict('unavailable', { atMs: 9, subject })).toMatchObject({
    status: 'unknown',
    source: 'none',
    reason: 'unavailable',
    evidence: 0,
    checkedAtMs: 9,
    expiresAtMs: 9,
    copies: 2,
    contact: { e164: '+12127365000', country: 'US' },
  })
  expect(withoutVerdict('internal', { atMs: 0 })).toMatchObject({ contact: {}, copies: 0 })
  expect(withoutVerdict('internal', { atMs: 0 }).evidence).toBeUndefined()
})

const coordinates: ChunkCoordinates = {
  tenant: TENANT,
  job: JOB,
  service: 'phone-validation',
  chunk: 2,
  chunks: 3,
  firstRow: 20,
  rows: 10,
  totalRows: 30,
}

const outcome = (change: Partial<RowOutcome>): RowOutcome => ({
  status: 'valid',
  reason: 'assigned_range',
  source: 'live',
  confidence: 90,
  checkedAtMs: 0,
  expiresAtMs: 1_000,
  fields: {},
  contact: {},
  copies: 0,
  ...change,
})

const column = (block: ReturnType<typeof createBlock>, name: string) =>
  cellsIn(block.emission('small').rows, name)

type Value = ReturnType<ReturnType<typeof createBlock>['emission']>['value']

/** Status, reason and rows of each entry. */
const verdictsOf = ({ verdicts }: Value) =>
  verdicts?.map(({ status, reason, firstRow, rows }) =>
    [status, reason, rowsOf(rows).map(row => firstRow + row)])

describe('a block', () => {
  it('derives every bitmap from how its rows ended', () => {
    const block = createBlock({ coordinates, batch: 4 })
    block.add(0, outcome({ status: 'valid', copies: 2 }))
    block.add(1, outcome({ status: 'invalid' }))
    block.add(2, outcome({ source: 'none', status: 'unknown', reason: 'no_answer' }))
    block.add(3, outcome({ source: 'cache', copies: 1 }))
    block.add(4, outcome({ source: 'preflight', status: 'invalid', reason: 'empty' }))
    block.add(5, outcome({ source: 'none', status: 'unknown', reason: 'cancelled' }))
    block.add(9, { source: 'duplicate', duplicateOf: 21 })
    const { value, rows } = block.emission('small')
    expect(rowsOf(value.finished)).toEqual([0, 1, 2, 3, 4, 5, 9])
    expect(rowsOf(value.cached)).toEqual([3])
    expect(rowsOf(value.live)).toEqual([0, 1])
    expect(rowsOf(value.invalid)).toEqual([4])
    expect(rowsOf(value.unknown)).toEqual([2])
    expect(rowsOf(value.cancelled)).toEqual([5])
    expect(value.duplicates).toEqual([{ row: 0, count: 2 }, { row: 3, count: 1 }])
    expect(verdictsOf(value)).toEqual([
      ['valid', 'assigned_range', [0, 3]],
      ['invalid', 'assigned_range', [1]],
      ['unknown', 'no_answer', [2]],
      ['invalid', 'empty', [4]],
      ['unknown', 'cancelled', [5]],
    ])
    expect(value).toMatchObject({ ...coordinates, batch: 4, inputs: false })
    expect(rows.rows).toEqual([0, 1, 2, 3, 4, 5, 9])
    expect(rows.duplicateOf).toEqual([0, 0, 0, 0, 0, 0, 21])
    expect(rows.inputs).toBe(null)
  })

  it('stores the columns of the result file that are not blank, and no others', () => {
    const block = createBlock({ coordinates, batch: 0 })
    block.add(0, outcome({ fields: { e164: '+12127365000', carrier: 'Acme', mx_found: 'true' } }))
    block.add(1, withoutVerdict('cancelled', { atMs: 0 }))
    block.add(2, { source: 'duplicate', duplicateOf: 21 })
    const names = block.emission('small').rows.columns.map(({ name }) => name)
    expect(names.map(name => [name, ...column(block, name) ?? []])).toEqual([
      ['e164', '+12127365000', '', ''],
      ['carrier', 'Acme', '', ''],
      ['status', 'valid', 'unknown', ''],
      ['source', 'live', 'none', 'duplicate'],
      ['confidence', '90', '0', ''],
      ['reason', 'assigned_range', 'cancelled', ''],
      ['checked_at', '1970-01-01T00:00:00.000Z', '1970-01-01T00:00:00.000Z', ''],
      ['expires_at', '1970-01-01T00:00:01.000Z', '1970-01-01T00:00:00.000Z', ''],
    ])
  })

  it('has the cells of each row, whatever the rows share, repeat or lack', () => {
    const records = [...Array(70).keys()].map(number =>
      ({ carrier: number % 9 === 0 ? '' : `carrier ${number}`, region: 'Hessen' }))
    const row = fc.record({
      record: fc.oneof(fc.nat(2), fc.nat(records.length - 1)),
      contact: fc.oneof(fc.constant({}), fc.record({ carrier: fc.constantFrom('', 'its own') }),
        fc.nat(200).map(number => ({ e164: `+1212736${number}` }))),
      source: fc.constantFrom('live' as const, 'cache' as const),
      evidence: fc.constantFrom(undefined, 0, 8),
      confidence: fc.constantFrom(1, 90),
      expiresAtMs: fc.constantFrom(1_000, 2_000),
    })
    const rowsOfChunk = fc.oneof(fc.array(row, { maxLength: 10 }),
      fc.array(row, { minLength: 120, maxLength: 200 }))
    fc.assert(fc.property(rowsOfChunk, rows => {
      const block = createBlock({ coordinates: { ...coordinates, rows: rows.length }, batch: 0 })
      for (const [at, { record, ...change }] of rows.entries()) {
        block.add(at, outcome({ ...change, fields: records[record] ?? {} }))
      }
      const cells = (name: string) => column(block, name) ?? rows.map(() => '')
      const contactOf = (contact: object) => contact as Partial<Record<string, string>>
      expect(cells('carrier')).toEqual(rows.map(({ record, contact }) =>
        contactOf(contact)['carrier'] || records[record]?.carrier))
      expect(cells('e164')).toEqual(rows.map(({ contact }) => contactOf(contact)['e164'] ?? ''))
      expect(cells('region')).toEqual(rows.map(() => 'Hessen'))
      expect(cells('source')).toEqual(rows.map(({ source }) => source))
      expect(cells('checks')).toEqual(rows.map(({ evidence }) => String(evidence ?? '')))
      expect(cells('confidence')).toEqual(rows.map(({ confidence }) => String(confidence)))
      expect(cells('expires_at'))
        .toEqual(rows.map(({ expiresAtMs }) => new Date(expiresAtMs).toISOString()))
    }), { numRuns: 30 })
  })

  it('stores the values of a column once while they are few', () => {
    const stored = (values: readonly string[]) => {
      const rows = values.length
      const blocks = [(carrier: string) => ({ fields: { carrier } }),
        (carrier: string) => ({ contact: { carrier } })].map(change => {
        const block = createBlock({ coordinates: { ...coordinates, rows }, batch: 0 })
        for (const [row, value] of values.entries()) block.add(row, outcome(change(value)))
        return block.emission('small').rows.columns.find(({ name }) => name === 'carrier')
      })
      expect(blocks[1]).toEqual(blocks[0])
      return blocks[0]
    }
    const many = [...Array(65).keys()].map(number => `carrier ${number}`)
    expect(stored(['x', 'y', 'x'])).toEqual({ name: 'carrier', values: ['x', 'y'], at: [0, 1, 0] })
    expect(stored(many)).toEqual({ name: 'carrier', values: many, at: [] })
    expect(stored(many.slice(1))?.at).toHaveLength(64)
  })

  it('names the verdict of every original, in few bytes if these are few', () => {
    const size = 2_000
    const reasons = ['assigned_range', 'unassigned_range', 'catch_all'] as const
    const some = fc.tuple(fc.nat(size - 1), fc.array(fc.nat(3), { maxLength: 60 }))
    fc.assert(fc.property(some, ([first, kinds]) => {
      const block = createBlock({ coordinates: { ...coordinates, rows: size }, batch: 0 })
      const expected = new Map<string, number[]>()
      for (const [index, kind] of kinds.slice(0, size - first).entries()) {
        const reason = reasons[kind]
        if (reason === undefined) continue
        block.add(first + index, outcome({ reason }))
        expected.set(reason, [...expected.get(reason) ?? [], first + index])
      }
      const { value } = block.emission('small')
      expect(verdictsOf(value)).toEqual(
        [...expected].map(([reason, rows]) => ['valid', reason, rows]))
      for (const { rows } of value.verdicts ?? []) expect(rows.length).toBeLessThan(10)
    }))
  })

  it('takes each row of its chunk once and in order', () => {
    const block = createBlock({ coordinates, batch: 0 })
    block.add(3, outcome({}))
    expect(() => block.add(3, outcome({}))).toThrow(RangeError)
    expect(() => block.add(2, outcome({}))).toThrow(RangeError)
    expect(() => block.add(10, outcome({}))).toThrow(RangeError)
    expect(block.emission('small').rows.rows).toEqual([3])
  })
})

describe('a block made from headers', () => {
  it('ends exactly the rows of the message, free and without a verdict', () => {
    const bitmap = bitmapOf(10, [1, 8])
    const { value, rows: stored } = unresolvableBlock({ coordinates, lane: 'bulk', bitmap },
      { atMs: 5, inputs: false })
    expect(rowsOf(value.finished)).toEqual([1, 8])
    expect(rowsOf(value.unknown)).toEqual([1, 8])
    expect([countBits(value.live), countBits(value.cached)]).toEqual([0, 0])
    expect(cellsIn(stored, 'source')).toEqual(['none', 'none'])
    expect(value.batch).toBe(-2)
    expect(cellsIn(stored, 'reason')).toEqual(['internal', 'internal'])
    expect(stored.inputs).toBe(null)
  })

  it('replaces the input block of its chunk on request', () => {
    const block = unresolvableBlock({ coordinates, lane: 'bulk', bitmap: bitmapOf(10, [0]) },
      { atMs: 5, inputs: true })
    expect(block.value.inputs).toBe(true)
    expect(block.rows.inputs).toEqual(new Array(10).fill(''))
  })
})

describe('the coordinates in the headers of a message', () => {
  const headers = {
    tenant: TENANT,
    job: JOB,
    service: 'whatsapp',
    lane: 'bulk',
    chunk: '3',
    chunks: '4',
    firstRow: '3000',
    chunkRows: '10',
    totalRows: '3010',
    rows: bitmapOf(10, [0, 9]).toString('base64'),
  }

  it('are those of its value, and the rows it is about', () => {
    expect(readMessageRows(headers)).toEqual({
      coordinates: {
        ...coordinates,
        service: 'whatsapp',
        chunk: 3,
        chunks: 4,
        firstRow: 3_000,
        totalRows: 3_010,
      },
      lane: 'bulk',
      bitmap: bitmapOf(10, [0, 9]),
    })
  })

  it.each([
    ...Object.keys(headers).map(name => ({ [name]: undefined })),
    { chunk: '1.5' }, { chunkRows: '-1' },
  ])('are unknown with %j', change => {
    expect(readMessageRows({ ...headers, ...change } as never)).toBeUndefined()
  })
})
