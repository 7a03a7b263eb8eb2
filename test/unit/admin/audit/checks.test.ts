import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import {
  checkBalances, checkEntries, checkForged, checkResults, checkSlots, checkWallet, countResults,
} from '../../../../services/admin/audit/checks.ts'
import { auditTable, breachUnless } from '../../../../services/admin/audit/report.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
import { entryOf, JOB, TENANT } from '../../../support/stage-doubles.ts'

const job = endedJob({ chargedMicros: 10, releasedMicros: 0 })
const running = endedJob({ ended: false, status: 'verifying' })

/** An entry, `[amount, available, reserved, charged]` of it, in a wallet funded with 100. */
const entry = (seq: number, type: string, amounts: readonly number[]): Journal => {
  const [amountMicros = 0, availableMicros = 0, reservedMicros = 0, chargedMicros = 0] = amounts
  return {
    ...entryOf(TENANT, job),
    seq,
    type,
    entryId: `${type}-${seq}`,
    job: type === 'topup' ? '' : JOB,
    amountMicros,
    chargeMicros: type === 'settle' ? 10 : 0,
    availableMicros,
    reservedMicros,
    chargedMicros,
    fundedMicros: 100,
  }
}

const entries = [
  entry(1, 'topup', [100, 100, 0, 0]),
  entry(2, 'reserve', [10, 90, 10, 0]),
  entry(3, 'settle', [10, 90, 0, 10]),
]
const balance = {
  availableMicros: 90, reservedMicros: 0, chargedMicros: 10, fundedMicros: 100, seq: 3,
}
const rules = (found: readonly { rule: string }[]) => found.map(({ rule }) => rule)

describe('the audit of money', () => {
  it('finds nothing when all amounts add up', () => {
    expect([checkWallet(balance, []), checkBalances(entries, [], balance)]).toEqual([[], []])
    expect(checkBalances(entries.slice(0, 2), entries.slice(1), balance)).toEqual([])
  })

  it('finds amounts that do not add up, are below zero, or belong to no job', () => {
    const odd = { ...balance, availableMicros: -1, reservedMicros: 91 }
    expect(checkWallet(odd, [running])).toEqual([
      { job: '', rule: 'no amount is below zero', detail: 'availableMicros is -1' },
      {
        job: '',
        rule: 'reserved = maximum quotes of jobs that have not ended',
        detail: '91 is reserved, the maximum quotes add up to 10',
      },
    ])
    expect(rules(checkWallet({ ...balance, fundedMicros: 101 }, [])))
      .toEqual(['available + reserved + charged = funded'])
  })

  it('continues after a gap with the amounts of the next entry', () => {
    expect(checkBalances(entries.toSpliced(1, 1), [], balance)).toEqual([])
    expect(checkBalances(entries.toSpliced(1, 1), entries.slice(1, 2), balance)).toEqual([])
  })

  it('finds a truncated journal and an entry that does not add up', () => {
    expect(rules(checkBalances(entries.slice(0, 2), [], balance))).toEqual([
      'the journal adds up to the balances', 'the journal adds up to the balances',
    ])
    const wrong = [...entries.slice(0, 2), entry(3, 'settle', [10, 91, 0, 10])]
    expect(checkBalances(wrong, [], balance)).toEqual([{
      job: JOB,
      rule: 'each entry adds up to the balances it states',
      detail: 'after entry 3 availableMicros should be 90, not 91',
    }])
  })
})

describe('the audit of forged rows', () => {
  it('counts rows without an authentic MAC, and names the first of them', () => {
    expect(checkForged([])).toEqual([])
    expect(checkForged([7, 8, 9, 10, 11, 12])).toEqual([{
      job: '',
      rule: 'every row of the copy is signed by a service',
      detail: '6 rows of the journal in ClickHouse have no authentic MAC and are ignored: ' +
        'seq 7, 8, 9, 10, 11, ...',
    }])
  })
})

describe('the audit of jobs', () => {
  it('requires one reserve and one end per job, and a job for each', () => {
    expect(checkEntries([job], entries)).toEqual([])
    expect(rules(checkEntries([], entries))).toEqual(['every reservation has a job'])
    const reservedAtMs = entries[1]!.at
    expect(rules(checkEntries([], entries, reservedAtMs)))
      .toEqual(['every reservation has a job'])
    expect(checkEntries([], entries, reservedAtMs + 1)).toEqual([])
    expect(rules(checkEntries([job], entries.slice(0, 2))))
      .toEqual(['one settle or void per ended job, none before'])
    expect(rules(checkEntries([running], entries.slice(0, 2)))).toEqual([])
    expect(rules(checkEntries([job], [...entries, entries[1]!])))
      .toEqual(['one reserve of the maximum quote per job'])
    expect(rules(checkEntries([{ ...job, chargedMicros: 9 }], entries)))
      .toEqual(['charge within the quote, the rest released', 'charged + released = reserved'])
  })

  it('counts the rows of a result file', async () => {
    const csv = ['row,status,source,reason\r\n', '1,valid,live,\r\n2,unknown,none,internal\r\n',
      '3,invalid,preflight,\r\n5,valid,duplicate,\r\n6,risky,cache,\r\n']
    expect(await countResults((async function * () { yield * csv })()))
      .toEqual({
        rows: 5,
        outOfOrder: 4,
        billable: 1,
        succeeded: 3,
        internal: 1,
        bySource: { live: 1, none: 1, preflight: 1, duplicate: 1, cache: 1 },
      })
  })

  it('finds rows, charges and counts that differ from the results', () => {
    const counted = endedJob({
      chargedMicros: 10,
      counts: { ...job.counts, freshRecords: 1, successRecords: 1 },
    })
    const results = {
      rows: 1, outOfOrder: 0, billable: 1, succeeded: 1, internal: 0, bySource: { live: 1 },
    }
    expect(checkResults(counted, results)).toEqual([])
    expect(checkResults(counted, { ...results, billable: 2 })).toEqual([
      { job: JOB, rule: 'charge = billable rows x unit price', detail: '2 x 10 is 20, charged 10' },
    ])
    expect(rules(checkResults(counted, { ...results, rows: 2 })))
      .toEqual(['every row once, in order'])
    expect(rules(checkResults(job, { ...results, succeeded: 1 }))).toEqual([
      'successRecords = rows with a verdict', 'successRecords + failedRecords = totalRows',
      'each counter = its rows by source',
    ])
    const cancelled = { ...job.counts, successRecords: 1, unknownRecords: 1, cancelledRecords: 2 }
    const bySource = { none: 3, live: 1 }
    expect(checkResults(endedJob({ chargedMicros: 10, counts: cancelled }), {
      ...results, bySource,
    })).toEqual([{
      job: JOB,
      rule: 'each counter = its rows by source',
      detail: 'freshRecords is 0, 1 rows in the results are of the source live',
    }])
  })

  it('requires that exactly running jobs with fresh rows hold slots', () => {
    expect([checkSlots([running, job], 1), checkSlots([job], 0)]).toEqual([[], []])
    const details = [checkSlots([running], 0), checkSlots([running], 2), checkSlots([job], 1)]
      .flat().map(({ detail }) => detail)
    expect(details).toEqual([
      '0 slots are held, 1 such jobs run', '2 slots are held, 1 such jobs run',
      '1 slots are held, 0 such jobs run',
    ])
  })
})

describe('the report of an audit', () => {
  it('is a table with a line per tenant, followed by all breaches', () => {
    const { seq, ...amounts } = balance
    const tenant = { tenant: TENANT, ...amounts, entries: seq, openJobs: 0, closedJobs: 1, rows: 5 }
    const [breach] = breachUnless(false, { rule: 'x = y', detail: '1 is not 2', job: JOB })
    const table = auditTable({
      ok: false, tenants: [{ ...tenant, breaches: 1 }], breaches: [{ tenant: TENANT, ...breach! }],
    }, true)
    expect(table.split('\n').map(line => line.split(/ {2,}/))).toEqual([
      ['tenant', 'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros', 'entries',
        'openJobs', 'closedJobs', 'rows', 'breaches'],
      [TENANT, '90', '0', '10', '100', '3', '0', '1', '5', '1'],
      [`BREACH - ${TENANT} ${JOB} x = y: 1 is not 2`],
    ])
    const empty = { ok: true, tenants: [], breaches: [] }
    expect(auditTable(empty, true)).toMatch(/no breaches$/)
    expect(auditTable(empty, false)).toMatch(/no breaches in what is new since the last audit;/)
  })
})
