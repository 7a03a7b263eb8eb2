import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import {
  checkEntries, checkResults, checkSlots, countResults,
} from '../../../services/workspace/audit-jobs.ts'
import { checkFold, checkForged, checkWallet } from '../../../services/workspace/audit-money.ts'
import { auditTable, breachUnless } from '../../../services/workspace/audit-report.ts'
import { endedJob } from '../../support/results.ts'
import { entryOf, JOB, TENANT } from '../../support/stage-doubles.ts'

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
const laws = (found: readonly { law: string }[]) => found.map(({ law }) => law)

describe('the audit of money', () => {
  it('finds nothing where everything adds up', () => {
    expect([checkWallet(balance, []), checkFold(entries, [], balance)]).toEqual([[], []])
    expect(checkFold(entries.slice(0, 2), entries.slice(1), balance)).toEqual([])
  })

  it('names amounts that do not add up, are below zero, or belong to no job', () => {
    const odd = { ...balance, availableMicros: -1, reservedMicros: 91 }
    expect(checkWallet(odd, [running])).toEqual([
      { job: '', law: 'no amount is below zero', detail: 'availableMicros is -1' },
      {
        job: '',
        law: 'reserved = maximum quotes of jobs that have not ended',
        detail: '91 reserved, quotes of such jobs sum up to 10',
      },
    ])
    expect(laws(checkWallet({ ...balance, fundedMicros: 101 }, [])))
      .toEqual(['available + reserved + charged = funded'])
  })

  it('goes on behind a gap with what the next entry says', () => {
    expect(checkFold(entries.toSpliced(1, 1), [], balance)).toEqual([])
    expect(checkFold(entries.toSpliced(1, 1), entries.slice(1, 2), balance)).toEqual([])
  })

  it('names a lost end and an entry that does not follow', () => {
    expect(laws(checkFold(entries.slice(0, 2), [], balance))).toEqual([
      'the journal leads to the balances', 'the journal leads to the balances',
    ])
    const wrong = [...entries.slice(0, 2), entry(3, 'settle', [10, 91, 0, 10])]
    expect(checkFold(wrong, [], balance)).toEqual([{
      job: JOB,
      law: 'each entry leads to the balances it names',
      detail: 'after entry 3 availableMicros should be 90, not 91',
    }])
  })
})

describe('the audit of the copy', () => {
  it('counts rows that no service signed, and names the first of them', () => {
    expect(checkForged([])).toEqual([])
    expect(checkForged([7, 8, 9, 10, 11, 12])).toEqual([{
      job: '',
      law: 'every row of the copy is signed by a service',
      detail: '6 rows of the journal in ClickHouse have no authentic MAC and are left out: ' +
        'seq 7, 8, 9, 10, 11, ...',
    }])
  })
})

describe('the audit of jobs', () => {
  it('wants one reserve and one end a job, and a job for each', () => {
    expect(checkEntries([job], entries)).toEqual([])
    expect(laws(checkEntries([], entries))).toEqual(['every reservation has its job'])
    expect(laws(checkEntries([job], entries.slice(0, 2))))
      .toEqual(['one settle or void for a job that has ended, none before'])
    expect(laws(checkEntries([running], entries.slice(0, 2)))).toEqual([])
    expect(laws(checkEntries([job], [...entries, entries[1]!])))
      .toEqual(['one reserve of the maximum quote a job'])
    expect(laws(checkEntries([{ ...job, chargedMicros: 9 }], entries)))
      .toEqual(['charge within the quote, the rest released', 'charged + released = reserved'])
  })

  it('counts a result file by its cells', async () => {
    const csv = ['row,status,source,reason\r\n', '1,valid,live,\r\n2,unknown,live,internal\r\n',
      '3,invalid,preflight,\r\n5,valid,duplicate,\r\n6,risky,cache,\r\n']
    expect(await countResults((async function * () { yield * csv })()))
      .toEqual({ rows: 5, outOfOrder: 4, billable: 1, succeeded: 3, internal: 1 })
  })

  it('names rows, charges and counts that differ from the results', () => {
    const counted = endedJob({
      chargedMicros: 10,
      counts: { ...job.counts, freshRecords: 1, successRecords: 1 },
    })
    const results = { rows: 1, outOfOrder: 0, billable: 1, succeeded: 1, internal: 0 }
    expect(checkResults(counted, results)).toEqual([])
    expect(checkResults(counted, { ...results, billable: 2 })).toEqual([
      { job: JOB, law: 'charge = billable rows x unit price', detail: '2 x 10 is 20, charged 10' },
    ])
    expect(laws(checkResults(counted, { ...results, rows: 2 })))
      .toEqual(['every row once, in order'])
    expect(laws(checkResults(job, { ...results, succeeded: 1 }))).toEqual([
      'successRecords = rows with a verdict', 'successRecords + failedRecords = totalRows',
      'cacheHits + freshRecords + invalidRows + duplicateRows = totalRows',
    ])
  })

  it('wants slots held by running jobs with fresh rows alone', () => {
    expect(checkSlots([running], [JOB])).toEqual([])
    expect(checkSlots([running], []).map(({ job: id }) => id)).toEqual([JOB])
    expect(checkSlots([job], [JOB]).map(({ detail }) => detail)).toEqual(['it holds one'])
  })
})

describe('the report', () => {
  it('is a table with a line a tenant, and every breach below', () => {
    const { seq, ...amounts } = balance
    const tenant = { tenant: TENANT, ...amounts, entries: seq, openJobs: 0, closedJobs: 1, rows: 5 }
    const [breach] = breachUnless(false, { law: 'x = y', detail: '1 is not 2', job: JOB })
    const table = auditTable({
      ok: false, tenants: [{ ...tenant, breaches: 1 }], breaches: [{ tenant: TENANT, ...breach! }],
    })
    expect(table.split('\n').map(line => line.split(/ {2,}/))).toEqual([
      ['tenant', 'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros', 'entries',
        'openJobs', 'closedJobs', 'rows', 'breaches'],
      [TENANT, '90', '0', '10', '100', '3', '0', '1', '5', '1'],
      [`BREACH - ${TENANT} ${JOB} x = y: 1 is not 2`],
    ])
    expect(auditTable({ ok: true, tenants: [], breaches: [] })).toContain('no breaches')
  })
})
