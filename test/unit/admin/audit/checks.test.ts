import { globSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import { ACCESS_RULES } from '../../../../services/accounts/access-log/copy.ts'
import {
  checkAges, checkBalances, checkDeliveries, checkEntries, checkForged, checkIds, checkKafka,
  checkMovements, checkNumbers, checkResults, checkSlots, checkWallet, countResults, explain,
} from '../../../../services/admin/audit/checks.ts'
import {
  auditTable, invariantsText, type TenantBreaches,
} from '../../../../services/admin/audit/report.ts'
import { deliveryIdOf, eventIdOf } from '../../../../services/webhooks/event.ts'
import type { EventType } from '../../../../schemas/api/webhooks.ts'
import type { Job } from '../../../../services/jobs/job.ts'
import { canonicalText } from '../../../../services/money/journal.ts'
import { endedJob } from '../../../support/clickhouse/results.ts'
import { acceptedJob, entryOf, JOB, TENANT } from '../../../support/stage-messages.ts'
import { deliveryAttempt } from '../../../support/webhooks/deliveries.ts'
import { ENDPOINT_ID } from '../../../support/webhooks/endpoints.ts'
import type { Attempt } from '../../../../services/webhooks/deliveries.ts'

const DAY_MS = 86_400_000
const job = endedJob({ chargedMicros: 10, releasedMicros: 0 })
const running = endedJob({ ended: false, status: 'verifying', createdAtMs: 1_000 })

const numbered = (seq: number, change: Partial<Journal> = {}): Journal =>
  ({ ...entryOf(TENANT, acceptedJob()), seq, ...change })
const copyOf = (...seqs: readonly number[]) => seqs.map(seq => numbered(seq))
const kafkaOf = (...seqs: readonly number[]) =>
  new Map(seqs.map(seq => [seq, canonicalText(numbered(seq))]))

/** An entry, `[amount, available, reserved, charged]` of it, in a wallet funded with 100. */
function entry (seq: number, type: string, amounts: readonly number[]): Journal {
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

const topup = entry(1, 'topup', [100, 100, 0, 0])
const reserve = entry(2, 'reserve', [10, 90, 10, 0])
const settle = entry(3, 'settle', [10, 90, 0, 10])
const journal = [topup, reserve, settle]
const balance = {
  availableMicros: 90, reservedMicros: 0, chargedMicros: 10, fundedMicros: 100, seq: 3,
}

const claimed = (name: string, claimedAt: number, idempotencyKey: string) => numbered(1, {
  job: name,
  entryId: `${name}:reserve`,
  reason: JSON.stringify({ idempotencyKey, claimedAt: String(claimedAt) }),
})
const topupWith = (seq: number, entryId: string) =>
  numbered(seq, { type: 'topup', job: '', reason: 'no JSON', entryId })

const counted = endedJob({
  chargedMicros: 10,
  counts: { ...job.counts, freshRecords: 1, successRecords: 1 },
  verdicts: { 'valid assigned_range': 1 },
})
const results = {
  rows: 1,
  outOfOrder: 0,
  billable: 1,
  succeeded: 1,
  internal: 0,
  bySource: { live: 1 },
  byVerdict: { 'valid assigned_range': 1 },
}

const type = 'job.completed'
const event = eventIdOf(JOB, type)
const attempt = (change: Partial<Attempt> = {}) =>
  deliveryAttempt({ tenant: TENANT, job: JOB, event, ...change })
const to = (endpoint: string, change: Partial<Attempt> = {}) =>
  attempt({ event: deliveryIdOf(event, endpoint), ...change })
const progress = deliveryIdOf(eventIdOf(JOB, 'job.progress', 3), 'we_1')

it.each<readonly [string, TenantBreaches]>([
  ['money that adds up', [...checkWallet(balance, []), ...checkBalances(journal, [], balance)]],
  ['entries that are in the outbox as well',
    checkBalances([topup, reserve], [reserve, settle], balance)],
  ['a gap in the copy, as others report it', checkBalances([topup, settle], [], balance)],
  ['a gap that the outbox fills', checkBalances([topup, settle], [reserve], balance)],
  ['a copy that is signed', checkForged([])],
  ['a copy that is numbered', checkNumbers({ seq: 3, outbox: [], copy: copyOf(1, 2, 3) })],
  ['movements in the copy or the outbox', checkMovements(
    { seq: 4, copy: copyOf(1, 2), outbox: copyOf(2, 3, 4) }, kafkaOf(1, 2))],
  ['a journal without movements', checkMovements({ seq: 0, copy: [], outbox: [] })],
  ['a Kafka that has more than the copy', checkKafka(copyOf(1, 2), kafkaOf(1, 2, 3))],
  ['entries with ids of their own', checkIds([topupWith(1, 'a'), topupWith(2, 'b')])],
  ['a key that comes again after a day',
    checkIds([claimed('job_a', 5, 'k'), claimed('job_b', 5 + DAY_MS, 'k')])],
  ['jobs without a key', checkIds([
    claimed('job_a', 5, ''), claimed('job_b', 5, ''),
    ...['job_c', 'job_d'].map(name => numbered(1, { job: name, entryId: name, reason: '' })),
  ])],
  ['a job with its entries', checkEntries([job], journal)],
  ['a running job that is reserved', checkEntries([running], [topup, reserve])],
  ['a reservation whose job may have expired', checkEntries([], journal, reserve.at + 1)],
  ['results as the job counts them', checkResults(counted, results)],
  ['results of a job that does not know its verdicts',
    checkResults({ ...counted, verdicts: {} }, results)],
  ['results of which some rows failed', checkResults(endedJob({
    chargedMicros: 10,
    preflight: { ...job.preflight, totalRows: 3 },
    counts: {
      ...job.counts, freshRecords: 1, successRecords: 1, failedRecords: 2, unknownRecords: 2,
    },
  }), { ...results, rows: 3, bySource: { live: 1, none: 2 } })],
  ['slots of running jobs', [...checkSlots([running, job], 1), ...checkSlots([job], 0)]],
  ['a job that is open for less than a day after its deadline',
    checkAges([{ ...running, deadlineMs: 2_000 }], 1_999 + DAY_MS)],
  ['a job that may wait for two days', checkAges([running], 999 + 3 * DAY_MS)],
  ['a job without deliveries', checkDeliveries(job, [], 0)],
  ['deliveries of the job',
    checkDeliveries(job, [attempt(), attempt({ outcome: 'delivered' })], 0)],
  ['a delivery that failed four days ago', checkDeliveries(job, [attempt()], 1_000 + 4 * DAY_MS)],
  ['a delivery that was given up', checkDeliveries(
    job, [attempt(), attempt({ outcome: 'exhausted' })], 9 * DAY_MS)],
  ['an event of progress that failed, as the next replaces it', checkDeliveries(
    job, [attempt({ type: 'job.progress', event: progress })], 9 * DAY_MS)],
])('the audit finds nothing in %s', (_, breaches) => {
  expect(breaches).toEqual([])
})

const MOVEMENTS = 'every movement is in the journal'
const LOST = 'lost from the journal before they were copied: neither the outbox nor Kafka nor ' +
  'the copy has them'
const SLOTS = 'exactly the running jobs with fresh rows hold a slot'
const late = (attempts: number, delivery: string) => `the last of ${attempts} attempts to ` +
  `deliver ${delivery} failed more than 4 days ago, and no other followed`

type Found = readonly [rule: string, job: string, detail: string]

it.each<readonly [string, breaches: TenantBreaches, ...found: Found[]]>([
  ['an amount below zero, and one that belongs to no job',
    checkWallet({ ...balance, availableMicros: -1, reservedMicros: 91 }, [running]),
    ['no amount is below zero', '', 'availableMicros is -1'],
    ['reserved = maximum quotes of jobs that have not ended', '',
      '91 is reserved, the maximum quotes add up to 10']],
  ['amounts that do not add up', checkWallet({ ...balance, fundedMicros: 101 }, []),
    ['available + reserved + charged = funded', '', '90 + 0 + 10 is not 101']],
  ['a journal whose end is gone', checkBalances([topup, reserve], [], balance),
    ['the journal adds up to the balances', '',
      'reservedMicros is 0, but the journal adds up to 10'],
    ['the journal adds up to the balances', '',
      'chargedMicros is 10, but the journal adds up to 0']],
  ['an entry that does not add up',
    checkBalances([topup, reserve, entry(3, 'settle', [10, 91, 0, 10])], [], balance),
    ['each entry adds up to the balances it states', JOB,
      'after entry 3 availableMicros should be 90, not 91']],
  ['rows that no service signed', checkForged([7, 8, 9, 10, 11, 12]),
    ['every row of the copy is signed by a service', '', '6 rows of the journal in ClickHouse ' +
      'have no authentic MAC and are ignored: seq 7, 8, 9, 10, 11, ...']],
  ['numbers that are taken twice or do not exist', checkNumbers({
    seq: 3, outbox: [], copy: [...copyOf(1, 2), numbered(2, { reason: 'x' }), ...copyOf(3, 4)],
  }),
  ['the journal is numbered 1 to n', JOB, 'two entries have the number 2'],
  ['the journal is numbered 1 to n', JOB, 'entry 4 exists, but Redis has only 3 movements']],
  ['movements that are lost, by range',
    checkMovements({ seq: 8, copy: copyOf(3, 4, 6, 9), outbox: [] }, kafkaOf(3, 6)),
    [MOVEMENTS, '', `entries 1 to 2 were ${LOST}`],
    [MOVEMENTS, '', `entry 5 was ${LOST}`],
    [MOVEMENTS, '', `entries 7 to 8 were ${LOST}`]],
  ['movements that only Kafka has',
    checkMovements({ seq: 4, copy: copyOf(1), outbox: [] }, kafkaOf(1, 2, 4)),
    [MOVEMENTS, '', `entry 3 was ${LOST}`],
    [MOVEMENTS, '', 'entry 2 was not copied from Kafka to ClickHouse'],
    [MOVEMENTS, '', 'entry 4 was not copied from Kafka to ClickHouse']],
  ['entries that Kafka lacks or has otherwise', checkKafka(
    copyOf(1, 2), new Map([[1, canonicalText(numbered(1, { amountMicros: 999 }))]])),
  ['Kafka and the copy have the same entries', JOB, 'entry 1 is different in Kafka'],
  ['Kafka and the copy have the same entries', JOB, 'entry 2 is missing in Kafka']],
  ['an id that is taken twice',
    checkIds([topupWith(1, 'topup:a'), topupWith(2, 'topup:b'), topupWith(5, 'topup:a')]),
    ['every entry has a unique id', '', 'the entries 1 and 5 have the id topup:a']],
  ['a key that made two jobs in a day', checkIds([
    claimed('job_a', 5, 'k'), claimed('job_b', 4 + DAY_MS, 'k'),
    claimed('job_c', 4 + 2 * DAY_MS, 'k'),
  ]),
  ['one job per Idempotency-Key in 24 hours', 'job_b',
    'its key created job_a less than 24 hours earlier']],
  ['a reservation without a job', checkEntries([], journal, reserve.at),
    ['every reservation has a job', JOB,
      'the job is neither open in Redis nor archived in ClickHouse']],
  ['a job that has ended without an entry', checkEntries([job], [topup, reserve]),
    ['one settle or void per ended job, none before', JOB,
      '0 settle or void entries for a job that has ended']],
  ['a running job with the entry of an end', checkEntries([running], journal),
    ['one settle or void per ended job, none before', JOB,
      '1 settle or void entries for a job that is running'],
    ['charge within the quote, the rest released', JOB,
      `the entry charges 10 of 10, the job ${running.chargedMicros} of 10`]],
  ['a job that is reserved twice', checkEntries([job], [...journal, reserve]),
    ['one reserve of the maximum quote per job', JOB,
      '2 reserve entries of 10, 10, the quote is 10']],
  ['a job with another charge', checkEntries([{ ...job, chargedMicros: 9 }], journal),
    ['charge within the quote, the rest released', JOB,
      'the entry charges 10 of 10, the job 9 of 10'],
    ['charged + released = reserved', JOB, '9 + 0 is not 10']],
  ['a charge for other rows', checkResults(counted, { ...results, billable: 0 }),
    ['charge = billable rows x unit price', JOB, '0 x 10 is 0, charged 10']],
  ['nothing wrong with the maximum for more rows', checkResults(counted, {
    ...results, billable: 2,
  })],
  ['rows that are too many, or out of order',
    checkResults(counted, { ...results, rows: 2, outOfOrder: 2 }),
    ['every row once, in order', JOB, '2 of 1 rows, first row out of order: 2']],
  ['counts of other results', checkResults(job, results),
    ['successRecords = rows with a verdict', JOB, '0 in the job, 1 in the results'],
    ['successRecords + failedRecords = totalRows', JOB, '0 + 0 is not 1'],
    ['each counter = its rows by source', JOB,
      'freshRecords is 0, 1 rows in the results are of the source live']],
  ['a counter of another source', checkResults(endedJob({
    chargedMicros: 10,
    counts: { ...job.counts, successRecords: 1, unknownRecords: 1, cancelledRecords: 2 },
  }), { ...results, bySource: { none: 3, live: 1 } }),
  ['each counter = its rows by source', JOB,
    'freshRecords is 0, 1 rows in the results are of the source live']],
  ['verdicts of other rows', checkResults(
    { ...counted, verdicts: { 'risky catch_all': 1 } }, results),
  ['verdicts and reasons = rows of each', JOB,
    '1 rows are counted as risky catch_all, 0 in the results are'],
  ['verdicts and reasons = rows of each', JOB,
    '0 rows are counted as valid assigned_range, 1 in the results are']],
  ['slots that are missing or too many',
    [[running], [running], [job]].flatMap((jobs, index) => checkSlots(jobs, [0, 2, 1][index]!)),
    [SLOTS, '', '0 slots are held, 1 such jobs run'],
    [SLOTS, '', '2 slots are held, 1 such jobs run'],
    [SLOTS, '', '1 slots are held, 0 such jobs run']],
  ['a job that is open a day after its deadline',
    [...checkAges([running], 1_000 + 3 * DAY_MS),
      ...checkAges([{ ...running, deadlineMs: 2_000 }], 2_000 + DAY_MS)],
    ...[1, 2].map(() => ['every job ends within a day of its deadline', JOB,
      'it was created at 1970-01-01T00:00:01.000Z and is still open'] as const)],
  ['a delivery of another event',
    checkDeliveries(job, [attempt(), attempt({ event: 'evt_x', outcome: 'delivered' })], 0),
    ['deliveries are of events of their job', JOB,
      'an attempt delivered evt_x as job.completed, which is not an event of the job']],
  ['the end of a job that runs', checkDeliveries(running, [attempt()], 0),
    ['deliveries are of events of their job', JOB,
      `an attempt delivered ${event} as job.completed, which is not an event of the job`]],
  ['the one delivery of several that does not end', checkDeliveries(
    job, [to('we_1'), to('we_2'), to('we_1', { outcome: 'delivered' })], 9 * DAY_MS),
  ['every delivery ends', JOB, late(1, `${event}.we_2`)]],
  ['a delivery that failed more than four days ago',
    checkDeliveries(job, [attempt(), attempt()], 1_001 + 4 * DAY_MS),
    ['every delivery ends', JOB, late(2, event)]],
])('the audit finds %s', (_, breaches, ...found) => {
  expect(breaches).toEqual(found.map(([rule, job, detail]) => ({ rule, job, detail })))
})

const lowBalance = { thresholdMicros: 1, availableMicros: 0 }
it.each<{ type: EventType, tenth?: number, change?: Partial<Job>, known: boolean[] }>([
  { type: 'job.accepted', known: [false, true] },
  { type: 'job.progress', tenth: 9, known: [false, true] },
  { type: 'job.progress', tenth: 10, known: [false, false] },
  { type: 'balance.low', change: { lowBalance }, known: [false, true] },
  { type: 'balance.low', known: [false, false] },
  { type: 'job.completed', known: [true, true] },
  { type: 'job.completed', change: { status: 'cancelled' }, known: [false, false] },
  { type: 'job.cancelled', change: { status: 'cancelled' }, known: [true, true] },
])('the audit knows $type of a job with $change at its webhook and at an endpoint: $known',
  ({ type, tenth, change, known }) => {
    const isKnown = (endpoint: string) => checkDeliveries(endedJob(change), [
      attempt({ type, event: deliveryIdOf(eventIdOf(JOB, type, tenth), endpoint) }),
    ], 0).length === 0
    expect([isKnown(''), isKnown(ENDPOINT_ID)]).toEqual(known)
  })

it('the audit counts the rows of a result file', async () => {
  const csv = ['row,status,source,reason\r\n', '1,valid,live,\r\n2,unknown,none,internal\r\n',
    '3,invalid,preflight,\r\n5,valid,duplicate,\r\n6,risky,cache,\r\n',
    '7,invalid,preflight,suppressed\r\n8,invalid,duplicate,suppressed\r\n']
  expect(await countResults((async function * () { yield * csv })())).toEqual({
    rows: 7,
    outOfOrder: 4,
    billable: 1,
    succeeded: 3,
    internal: 1,
    bySource: { live: 1, none: 1, preflight: 2, duplicate: 2, cache: 1 },
    byVerdict: {
      'valid ': 2, 'unknown internal': 1, 'invalid ': 1, 'risky ': 1, 'invalid suppressed': 2,
    },
  })
  expect(checkResults(counted, { ...results, succeeded: 2, internal: 1 })).toEqual([])
})

it('the audit explains each movement in a line, in order, with the rows of a charge', () => {
  const charged = endedJob({ unitPriceMicros: 4, counts: { ...job.counts, freshRecords: 3 } })
  const amounts = { amountMicros: 40, availableMicros: 60 }
  expect(explain([
    numbered(4, { type: 'void', job: 'job_x', chargeMicros: 0, ...amounts }),
    numbered(3, { type: 'settle', job: JOB, chargeMicros: 12, ...amounts }),
    numbered(2, { type: 'reserve', job: JOB, ...amounts }),
    { ...topup, reason: 'paid' },
  ], [charged])).toEqual([
    '1 topup of 100 (paid); available 100', `2 ${JOB} reserves 40; available 60`,
    `3 ${JOB} is charged 12 = 3 rows x 4, 28 is released; available 60`,
    '4 job_x is charged 0, 40 is released; available 60',
  ])
})

const none = { ok: true, tenants: [], breaches: [] }

it('the report of an audit is a table of tenants, followed by all breaches', () => {
  const { seq, ...amounts } = balance
  const tenant = { tenant: TENANT, ...amounts, entries: seq, openJobs: 0, closedJobs: 1, rows: 5 }
  const breach = { tenant: TENANT, job: JOB, rule: 'no amount is below zero', detail: 'it is -1' }
  const table = auditTable({
    ok: false, tenants: [{ ...tenant, breaches: 1 }], breaches: [breach],
  }, true)
  expect(table.split('\n').map(line => line.split(/ {2,}/))).toEqual([
    ['tenant', 'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros', 'entries',
      'openJobs', 'closedJobs', 'rows', 'breaches'],
    [TENANT, '90', '0', '10', '100', '3', '0', '1', '5', '1'],
    [`BREACH I2 ${TENANT} ${JOB} no amount is below zero: it is -1`],
  ])
  expect(auditTable(none, true)).toMatch(/no breaches$/)
  expect(auditTable(none, false)).toMatch(/no breaches in what is new since the last audit;/)
})

it('every rule of the audit belongs to an invariant, which the help explains', () => {
  const root = `${import.meta.dirname}/../../../..`
  const rules = globSync('services/admin/audit/*.ts', { cwd: root })
    .flatMap(path => [...readFileSync(`${root}/${path}`, 'utf8').matchAll(/rule: '([^']+)'/g)])
    .map(([, rule]) => rule!)
  expect(rules.length).toBeGreaterThan(20)
  const breaches = [...rules, ...Object.values(ACCESS_RULES)]
    .map(rule => ({ tenant: '', job: '', rule, detail: '' }))
  const ids = [...auditTable({ ...none, breaches }, true).matchAll(/^BREACH (\S+)/gm)]
    .map(([, id]) => id!)
  const all = Array.from({ length: 13 }, (_, index) => `I${index + 1}`)
  expect(new Set(ids)).toEqual(new Set(all))
  const explained = [...invariantsText().matchAll(/^ {2}(I\d+) +[A-Z].+\.$/gm)]
  expect(explained.map(([, id]) => id)).toEqual(all)
})
