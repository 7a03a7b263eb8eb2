import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import type { UsageOptions } from '../../../../services/jobs/results/archive.ts'
import { application, JOB_ID, KEY_ID, NO_USAGE, NOW_MS } from '../doubles.ts'

const entry: Journal = {
  tenant: 'org_01.live',
  seq: 2,
  entryId: 'entry-2',
  type: 'settle',
  job: JOB_ID,
  amountMicros: 6_000,
  chargeMicros: 4_000,
  availableMicros: 96_000,
  reservedMicros: 2_000,
  chargedMicros: 40_000,
  fundedMicros: 138_000,
  at: NOW_MS,
  reason: 'internal terms',
  header: Buffer.from('sealed'),
}

it('transactions have amounts, balances, job and time, and nothing internal', async () => {
  const asked: unknown[] = []
  const topup = { ...entry, seq: 1, type: 'topup', job: '', reason: 'paid by invoice' } as const
  const { get } = application({
    transactions: async (...of) => {
      asked.push(of)
      return [entry, topup]
    },
  })
  const { body, json } = await get('/transactions')
  expect(asked).toEqual([['org_01.live', { limit: 21, before: undefined, type: undefined }]])
  const settled = {
    id: 'txn_2',
    type: 'settle',
    amountMicros: 6_000,
    chargedMicros: 4_000,
    availableMicros: 96_000,
    reservedMicros: 2_000,
    balanceMicros: 98_000,
    jobId: JOB_ID,
    createdAt: '2026-08-11T10:00:00.000Z',
  }
  expect(json()).toEqual({
    data: [settled, { ...settled, id: 'txn_1', type: 'topup', jobId: null }],
    has_more: false,
    next_cursor: null,
  })
  expect(body).not.toMatch(/internal|invoice|sealed|entry-/)
})

const counts = {
  ...NO_USAGE,
  jobs: 2,
  totalRows: 5,
  freshRecords: 5,
  chargedMicros: 10_000,
  verdicts: { valid: 3, invalid: 0, risky: 2, unknown: 0 },
}
const groups = [
  { day: '2026-08-10', key: KEY_ID, ...counts }, { day: '2026-08-11', key: null, ...counts },
]

/** Answers a usage request, and returns what was asked for. */
async function usage (query = '', headers: Record<string, string> = {}) {
  const asked: UsageOptions[] = []
  const { get } = application({
    usage: async (tenant, options) => {
      expect(tenant).toBe('org_01.live')
      asked.push(options)
      return { kind: 'usage', groups, total: counts }
    },
  })
  const answer = await get(`/usage${query}`, { headers })
  return { answer, asked: asked[0] }
}

describe('the usage', () => {
  it('is that of the last 30 days by day, today included', async () => {
    const { answer, asked } = await usage()
    expect(asked).toEqual({
      fromMs: Date.parse('2026-07-13T00:00:00Z'), toMs: NOW_MS, groupBy: ['day'],
    })
    expect(answer.json()).toEqual({
      from: '2026-07-13T00:00:00.000Z',
      to: '2026-08-11T10:00:00.000Z',
      group_by: ['day'],
      data: groups,
      total: counts,
    })
  })

  it.each([
    ['from=2026-08-01&to=2026-08-02', '2026-08-01T00:00:00Z', '2026-08-03T00:00:00Z'],
    ['from=2026-08-01T12:00:00Z&to=2026-08-01T13:00:00.5Z', '2026-08-01T12:00:00Z',
      '2026-08-01T13:00:00.5Z'],
    ['from=2026-08-01T12:00:00%2B02:00', '2026-08-01T10:00:00Z', '2026-08-11T10:00:00Z'],
    ['to=2026-07-31', '2026-07-02T00:00:00Z', '2026-08-01T00:00:00Z'],
  ])('%s is a range of whole days or of times', async (query, from, to) => {
    const { asked } = await usage(`?${query}`)
    expect(asked).toMatchObject({ fromMs: Date.parse(from), toMs: Date.parse(to) })
  })

  it('is grouped by several names, each once', async () => {
    expect((await usage('?group_by=service,key')).asked?.groupBy).toEqual(['service', 'key'])
    expect((await usage('?group_by=key,key')).asked?.groupBy).toEqual(['key'])
  })

  it.each([['&format=csv', {}], ['', { accept: 'text/csv' }]])(
    'is a CSV file by the query %j or the headers %j', async (query, headers) => {
      const { answer } = await usage(`?group_by=day,key${query}`, headers)
      expect(answer.headers).toMatchObject({
        'content-type': 'text/csv; charset=utf-8; header=present',
        'content-disposition': 'attachment; filename="usage.csv"',
      })
      expect(answer.body.split('\r\n')).toEqual([
        'day,key,jobs,totalRows,cacheHits,freshRecords,invalidRecords,duplicateRecords,' +
          'unknownRecords,cancelledRecords,successRecords,failedRecords,chargedMicros,' +
          'valid,invalid,risky,unknown',
        `2026-08-10,${KEY_ID},2,5,0,5,0,0,0,0,0,0,10000,3,0,2,0`,
        '2026-08-11,,2,5,0,5,0,0,0,0,0,0,10000,3,0,2,0',
        '',
      ])
    })

  it('is not sent in a format that the client does not accept', async () => {
    const { answer } = await usage('?format=csv', { accept: 'application/json' })
    expect([answer.statusCode, answer.json().error.available]).toEqual([406, ['text/csv']])
  })

  it('of too many jobs is refused with what to do', async () => {
    const { get } = application({ usage: async () => ({ kind: 'too_many', maxJobs: 250_000 }) })
    const answer = await get('/usage?from=2026-01-01')
    expect([answer.statusCode, answer.json().error]).toMatchObject([400, {
      code: 'invalid_request', param: 'from', message: expect.stringContaining('250,000 jobs'),
    }])
  })
})
