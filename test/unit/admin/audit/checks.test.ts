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
import { toDeliveryId, deriveEventId } from '../../../../services/webhooks/event.ts'
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
/** Its record has another charge than its end in the journal. */
const cheaper = endedJob({ chargedMicros: 4, releasedMicros: 6 })
const running = endedJob({ ended: false, status: 'verifying', createdAtMs: 1_000 })

const numbered = (seq: number, change: Partial<Journal> = {}): Journal =>
  ({ ...entryOf(TENANT, acceptedJob()), seq, ...change })
const copyOf = (...seqs: readonly number[]) => seqs.map(seq => numbered(seq))
const kafkaOf = (...seqs: readonly number[]) =>
  new Map(seqs.map(seq => [seq, [canonicalText(numbered(seq))]]))

const movements = (
  seq: number, copy: readonly Journal[], outbox: readonly Journal[] = []
) => ({ seq, copy, outbox, resolvedUpTo: 0 })
const resolved = (copy: readonly Journal[]) => ({ ...movements(3, copy), resolvedUpTo: 3 })

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
const event = deriveEventId(JOB, type)
const attempt = (change: Partial<Attempt> = {}) =>
  deliveryAttempt({ tenant: TENANT, job: JOB, event, ...change })
const to = (endpoint: string, change: Partial<Attempt> = {}) =>
  attempt({ event: toDeliveryId(event, endpoint), ...change })
const progress = toDeliveryId(deriveEventId(JOB, 'job.progress', 3), 'we_1')

// What the audit-proof property breaks itself is not repeated here.
it.each<readonly [string, TenantBreaches]>([
  ['entries that are in the outbox as well',
    checkBalances(movements(3, [topup, reserve], [reserve, settle]), balance)],
  ['a gap in the copy, as others report it',
    checkBalances(movements(3, [topup, settle]), balance)],
  ['a gap that the outbox fills',
    checkBalances(movements(3, [topup, settle], [reserve]), balance)],
  ['movements in the copy, in the outbox as well',
    checkMovements(movements(2, copyOf(1, 2), copyOf(2)), kafkaOf(1, 2))],
  ['a journal without movements', checkMovements(movements(0, []))],
  ['two entries with a number, which is resolved', checkNumbers(resolved(
    [...copyOf(1, 2), numbered(2, { reason: 'x' }), ...copyOf(3)]))],
  ['balances of entries that contradicted others', checkBalances(
    resolved([topup, { ...reserve, availableMicros: 7 }, settle]), balance)],
  ['a Kafka that has more than there was', checkKafka(
    movements(2, copyOf(1, 2), copyOf(2)), kafkaOf(1, 2, 3))],
  ['both of two entries in both stores', checkKafka(
    movements(1, [numbered(1), numbered(1, { reason: 'x' })]),
    new Map([[1, [numbered(1, { reason: 'x' }), numbered(1)].map(canonicalText)]]))],
  ['a key that comes again after a day',
    checkIds([claimed('job_a', 5, 'k'), claimed('job_b', 5 + DAY_MS, 'k')])],
  ['jobs without a key', checkIds([
    claimed('job_a', 5, ''), claimed('job_b', 5, ''),
    ...['job_c', 'job_d'].map(name => numbered(1, { job: name, entryId: name, reason: '' })),
  ])],
  ['a running job that is reserved', checkEntries([running], [topup, reserve])],
  ['a reservation whose job may have expired', checkEntries(
    [], journal, { recordsSinceMs: reserve.at + 1 })],
  ['a job with the charge of an end that does not count', checkEntries(
    [cheaper], journal, { uncounted: [{ ...settle, chargeMicros: 4 }] })],
  ['results with their verdicts', checkResults(counted, results)],
  ['results of a job that does not know its verdicts',
    checkResults({ ...counted, verdicts: {} }, results)],
  ['results of which some rows failed', checkResults(endedJob({
    chargedMicros: 10,
    preflight: { ...job.preflight, totalRows: 3 },
    counts: {
      ...job.counts, freshRecords: 1, successRecords: 1, failedRecords: 2, unknownRecords: 2,
    },
  }), { ...results, rows: 3, bySource: { live: 1, none: 2 } })],
  ['results with lost rows, whose duplicates nobody knows',
    checkResults(counted, { ...results, succeeded: 2, internal: 1 })],
  ['a job that is charged its maximum for more rows',
    checkResults(counted, { ...results, billable: 2 })],
  ['slots of running jobs', [...checkSlots([running, job], 1), ...checkSlots([job], 0)]],
  ['a job that is open for less than a day after its deadline',
    checkAges([{ ...running, deadlineMs: 2_000 }], 1_999 + DAY_MS)],
  ['a job that may wait for two days', checkAges([running], 999 + 3 * DAY_MS)],
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

const broken: readonly (readonly [what: string, TenantBreaches, ...rules: string[]])[] = [
  ['an amount below zero, and one that belongs to no job',
    checkWallet({ ...balance, availableMicros: -1, reservedMicros: 91 }, [running]),
    'no amount is below zero', 'reserved = maximum quotes of jobs that have not ended'],
  ['amounts that do not add up', checkWallet({ ...balance, fundedMicros: 101 }, []),
    'available + reserved + charged = funded'],
  ['a key that made two jobs in a day', checkIds([
    claimed('job_a', 5, 'k'), claimed('job_b', 4 + DAY_MS, 'k'),
    claimed('job_c', 4 + 2 * DAY_MS, 'k'),
  ]), 'one job per Idempotency-Key in 24 hours'],
  ['a reservation without a job', checkEntries(
    [], journal, { recordsSinceMs: reserve.at }),
  'every reservation has a job'],
  ['a job that has ended without an entry', checkEntries([job], [topup, reserve]),
    'one settle or void per ended job, none before'],
  ['a running job with the entry of an end', checkEntries([running], journal),
    'one settle or void per ended job, none before',
    'charge within the quote, the rest released'],
  ['a job that is reserved twice', checkEntries([job], [...journal, reserve]),
    'one reserve of the maximum quote per job'],
  ['a job with another charge', checkEntries([{ ...job, chargedMicros: 9 }], journal),
    'charge within the quote, the rest released', 'charged + released = reserved'],
  ['a job with the charge of none of its ends', checkEntries(
    [cheaper], journal, { uncounted: [settle, { ...reserve, chargeMicros: 4 }] }),
  'charge within the quote, the rest released'],
  ['a charge for other rows', checkResults(counted, { ...results, billable: 0 }),
    'charge = billable rows x unit price'],
  ['rows that are too many', checkResults(counted, { ...results, rows: 2 }),
    'every row once, in order'],
  ['rows out of order', checkResults(counted, { ...results, outOfOrder: 1 }),
    'every row once, in order'],
  ['counts of other results', checkResults(job, results),
    'successRecords = rows with a verdict', 'successRecords + failedRecords = totalRows',
    'each counter = its rows by source'],
  ['a counter of another source', checkResults(endedJob({
    chargedMicros: 10,
    counts: { ...job.counts, successRecords: 1, unknownRecords: 1, cancelledRecords: 2 },
  }), { ...results, bySource: { none: 3, live: 1 } }), 'each counter = its rows by source'],
  ['verdicts of other rows', checkResults(
    { ...counted, verdicts: { 'risky catch_all': 1 } }, results),
  'verdicts and reasons = rows of each', 'verdicts and reasons = rows of each'],
  ...[[[running], 0], [[running], 2], [[job], 1]].map(([jobs, slots]) =>
    ['slots that are missing or too many', checkSlots(jobs as readonly Job[], slots as number),
      'exactly the running jobs with fresh rows hold a slot'] as const),
  ['a job that is open a day after its latest deadline',
    checkAges([running], 1_000 + 3 * DAY_MS), 'every job ends within a day of its deadline'],
  ['a job that is open a day after its own deadline',
    checkAges([{ ...running, deadlineMs: 2_000 }], 2_000 + DAY_MS),
    'every job ends within a day of its deadline'],
  ['a delivery of another event',
    checkDeliveries(job, [attempt(), attempt({ event: 'evt_x', outcome: 'delivered' })], 0),
    'deliveries are of events of their job'],
  ['the end of a job that runs', checkDeliveries(running, [attempt()], 0),
    'deliveries are of events of their job'],
  ['the one delivery of several that does not end', checkDeliveries(
    job, [to('we_1'), to('we_2'), to('we_1', { outcome: 'delivered' })], 9 * DAY_MS),
  'every delivery ends'],
  ['a delivery that failed more than four days ago',
    checkDeliveries(job, [attempt(), attempt()], 1_001 + 4 * DAY_MS), 'every delivery ends'],
]
it.each(broken.map(([what, breaches, ...rules]) => ({ what, breaches, rules })))(
  'the audit finds $what', ({ breaches, rules }) => {
    expect(breaches.map(({ rule }) => rule)).toEqual(rules)
  })

const LOST = 'lost from the journal before they were copied: neither the outbox nor Kafka nor ' +
  'the copy has them'
const UNSHIPPED = 'in Redis alone: the outbox was not shipped to Kafka'
const named: readonly (readonly [what: string, TenantBreaches, ...details: string[]])[] = [
  ['rows that no service signed', checkForged([7, 8, 9, 10, 11, 12]), '6 rows of the journal in ' +
    'ClickHouse have no authentic MAC and are ignored: seq 7, 8, 9, 10, 11, ...'],
  ['numbers that are taken twice or do not exist', checkNumbers(movements(
    3, [...copyOf(1, 2), numbered(2, { reason: 'x' }), ...copyOf(3, 4)])),
  'two entries have the number 2', 'entry 4 exists, but Redis has only 3 movements'],
  ['movements that are lost',
    checkMovements(movements(8, copyOf(3, 4, 6, 9)), kafkaOf(3, 6)),
    `entries 1 to 2 were ${LOST}`, `entry 5 was ${LOST}`, `entries 7 to 8 were ${LOST}`],
  ['movements that only Kafka has', [
    ...checkMovements(movements(6, copyOf(1)), kafkaOf(1, 2, 4, 5)),
    ...checkKafka(movements(6, copyOf(1)), kafkaOf(1, 2, 4, 5)),
  ], `entry 3 was ${LOST}`, `entry 6 was ${LOST}`,
  'entry 2 was not copied from Kafka to ClickHouse',
  'entries 4 to 5 were not copied from Kafka to ClickHouse'],
  ['movements that only Redis has, and those shipped meanwhile', [
    ...checkMovements(movements(5, copyOf(1), copyOf(2, 3, 4, 5)), kafkaOf(1, 4)),
    ...checkKafka(movements(5, copyOf(1), copyOf(2, 3, 4, 5)), kafkaOf(1, 4)),
  ], `entries 2 to 3 are ${UNSHIPPED}`, `entry 5 is ${UNSHIPPED}`,
  'entry 4 was not copied from Kafka to ClickHouse'],
  ['entries that Kafka lacks or has otherwise', checkKafka(movements(2, copyOf(1, 2)),
    new Map([[1, [canonicalText(numbered(1, { amountMicros: 999 }))]]])),
  'entry 1 is different in Kafka', 'entry 2 is missing in Kafka'],
  ['another entry with a number that only Kafka has', checkKafka(
    movements(3, copyOf(1, 2), copyOf(2, 3)), new Map([...kafkaOf(1, 2), [3, ['another']]].map(
      ([seq, texts]) => [seq as number, [...texts as string[], ...seq === 1 ? ['other'] : []]]))),
  'entry 3 was not copied from Kafka to ClickHouse', 'entry 1 is different in Kafka',
  'entry 3 is different in Kafka'],
]
it.each(named.map(([what, breaches, ...details]) => ({ what, breaches, details })))(
  'the audit names $what', ({ breaches, details }) => {
    expect(breaches.map(({ detail }) => detail)).toEqual(details)
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
      attempt({ type, event: toDeliveryId(deriveEventId(JOB, type, tenth), endpoint) }),
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
  const accessLog = { entries: 2, hash: 'h' }
  expect(auditTable({ ...none, accessLog }, true))
    .toMatch(/\naccess log: 2 entries, the last hash is h\nno breaches$/)
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
