import type { Redis } from 'ioredis'
import { createJobStore } from '../../services/jobs/store.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { POISON } from '../../services/runtime/engine/dead-letters.ts'
import { deadTopic, listSubscriptions, topicName } from '../../services/runtime/platform/topics.ts'
import { readPrices } from '../../services/money/prices.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { listColumns } from '../../services/jobs/results/columns.ts'
import type { ArchivedJob } from '../../services/jobs/results/archive.ts'
import { createResults, LostResultsError } from '../../services/jobs/results/results.ts'
import type { Incoming } from '../../services/runtime/engine/stage.ts'
import { indexes } from '../../services/runtime/platform/bitmap.ts'
import { LANES, READING_STAGES } from '../../services/topology.ts'
import { cellsIn } from '../support/clickhouse/results.ts'
import {
  checkCounts, checkInputs, checkLetters, checkVerdicts, wholeJobs, type Complain,
} from './losses.ts'
import type { Pipeline } from './pipeline.ts'
import type { Evidence, Sent } from './evidence.ts'
import { boughtCells, hasLists, isReleasedAtTimes, isSuppressed, PRICE_LISTS } from './inputs.ts'
import { optionsPriceMicros } from '../../services/jobs/options.ts'
import { checkEnd } from './cancels.ts'
import { checkFollowed, checkVerified } from './clients.ts'
import { countedRows } from './observer.ts'

const column = (name: string) => listColumns('phone-validation').indexOf(name)
const [ROW, STATUS, SOURCE, REASON, E164] = ['row', 'status', 'source', 'reason', 'e164']
  .map(column) as [number, number, number, number, number]

/** Of a row of `phone-validation`, without options. */
const PRICE_MICROS = readPrices('')['phone-validation']

/** Every violation of an invariant by a finished run; an empty list is a good run. */
export async function breachesOf (evidence: Evidence, redis: Redis): Promise<readonly string[]> {
  const breaches: string[] = []
  const complain: Complain = (about, expected, found) => {
    if (JSON.stringify(expected) === JSON.stringify(found)) return
    breaches.push(`${about}: expected ${JSON.stringify(expected)}, found ${JSON.stringify(found)}`)
  }
  await checkLetters(evidence, complain)
  checkHeld(evidence, complain)
  checkSetAside(evidence, complain)
  const { unreserved, miscounted } = evidence.pipeline.observer
  complain('jobs checked before their reserve', [], [...unreserved])
  complain('jobs whose counters did not add up', [], [...miscounted])
  complain('messages sent twice without a fault', [], evidence.repeats)
  let charged = new Map<string, number>()
  for (const sent of evidence.sent) {
    if (sent.outcome.kind !== 'accepted') continue
    const chargedMicros = await checkJob(evidence, sent, complain)
    charged = charged.set(sent.tenant, (charged.get(sent.tenant) ?? 0) + chargedMicros)
  }
  for (const tenant of evidence.tenants) {
    await checkMoney(evidence, { tenant, redis, chargedMicros: charged.get(tenant) ?? 0 }, complain)
  }
  await checkBlocks(evidence, complain)
  return breaches
}

/** Every row exactly once and in order, counts that add up, a charge that its rows explain. */
async function checkJob (
  evidence: Evidence, sent: Sent, complain: Complain
): Promise<number> {
  const { pipeline } = evidence
  if (sent.outcome.kind !== 'accepted') return 0
  const { id, preflight, unitPriceMicros } = sent.outcome.job
  const archived = await pipeline.stores.archive.find(sent.tenant, id)
  const current = await pipeline.store.read(sent.tenant, id)
  complain(`${id} is closed`, [true, true], [archived !== undefined, current?.closed])
  if (archived === undefined) return 0
  const { job, manifest } = archived
  complain(`${id} released`, preflight.maxQuoteMicros - job.chargedMicros, job.releasedMicros)
  const prices = PRICE_LISTS.map(list =>
    PRICE_MICROS + optionsPriceMicros(list, sent.options, 'live'))
  complain(`${id} price of a row ${unitPriceMicros} is one of ${prices.join(', ')}`, true,
    prices.includes(unitPriceMicros))
  complain(`${id} maximum`,
    (preflight.freshChecks + preflight.cacheHits) * unitPriceMicros, preflight.maxQuoteMicros)
  complain(`${id} charge within the quote`, true, job.chargedMicros <= preflight.maxQuoteMicros)
  complain(`${id} counters`, preflight.totalRows, countedRows(job))
  if (pipeline.corruption.lostKeys.has(id)) return await checkLost(pipeline, archived, complain)
  const cells: (readonly string[])[] = []
  const results = createResults({ ...pipeline, blocks: pipeline.stores.blocks })
  for await (const rows of results.rows(job, manifest, { withReference: true })) cells.push(...rows)
  complain(`${id} rows`, sent.inputs.map((_, row) => String(row + 1)), cells.map(row => row[ROW]))
  const poisoned = [...pipeline.poisoned, ...wholeJobs(evidence, sent)]
  checkInputs(sent.inputs, { cells, job: id, poisoned }, complain)
  const released = hasLists(evidence.seed) ? sent.inputs.filter(isReleasedAtTimes).length : 0
  checkCounts(job, { cells, poisoned, released }, complain)
  checkVerdicts(job, cells, complain)
  if (hasLists(evidence.seed)) {
    const suppressed = cells.filter(row => isSuppressed(row[E164] ?? ''))
    complain(`${id} suppressed rows with a verdict`, [], suppressed.filter(row =>
      row[STATUS] === 'valid' || row[SOURCE] === 'live').map(row => row[ROW]))
  }
  const bought = cells.filter(row => row[STATUS] !== 'unknown' &&
    ['live', 'cache'].includes(row[SOURCE] ?? '') && row[REASON] !== 'allow_listed')
  complain(`${id} verdicts without the answers of its options`, [],
    bought.filter(row => boughtCells(row, sent.options).includes('')))
  const live = cells.filter(row => row[SOURCE] === 'live')
  const billable = live.filter(row => row[STATUS] !== 'unknown')
  // When lists change between two decisions of a job, more rows are live than it has reserved for.
  const capMicros = hasLists(evidence.seed) ? preflight.maxQuoteMicros : Infinity
  const explained = Math.min(billable.length * unitPriceMicros, capMicros)
  // The journal counts, and rows of a dead letter may have a verdict since then.
  const isLess = evidence.losses.length > 0 && poisoned.some(one => one.job === id) &&
    job.chargedMicros < explained
  complain(`${id} charge`, isLess ? job.chargedMicros : explained, job.chargedMicros)
  const { cacheHits, successRecords, failedRecords } = job.counts
  complain(`${id} successes and failures`, sent.inputs.length, successRecords + failedRecords)
  checkVerified(sent, { chargedMicros: job.chargedMicros, cells }, complain)
  await checkEnd(evidence, { job, cells }, complain)
  const isBroken = poisoned.some(({ job: broken }) => broken === id)
  await checkFollowed(pipeline, { archived, followed: sent.followed }, {
    cells, isBroken, isLost: evidence.losses.length > 0,
  }, complain)
  // Rows that lists allow are hits as well.
  if (sent.forceFresh && !hasLists(evidence.seed)) {
    complain(`${id} hits of a fresh job`, 0, cacheHits)
  }
  return job.chargedMicros
}

/** The rows of a job without its key are unreadable; if it failed, it was free of charge. */
async function checkLost (
  pipeline: Pipeline, { job, manifest }: ArchivedJob, complain: Complain
): Promise<number> {
  const results = createResults({ ...pipeline, blocks: pipeline.stores.blocks })
  const rows = results.rows(job, manifest, { limit: 1 })[Symbol.asyncIterator]()
  const found = await rows.next()
    .catch((error: unknown) => error instanceof LostResultsError ? 'lost' : error)
  complain(`${job.id} results`, 'lost', found)
  const { successRecords, failedRecords } = job.counts
  complain(`${job.id} successes and failures`, job.preflight.totalRows,
    successRecords + failedRecords)
  if (job.status === 'failed') {
    complain(`${job.id} charge`, [0, 0], [job.chargedMicros, successRecords])
  }
  return job.chargedMicros
}

/** Random crashes say nothing about the messages that they interrupt. */
function checkSetAside ({ pipeline: { bus } }: Evidence, complain: Complain): void {
  for (const stage of READING_STAGES) {
    const letters = bus.messages(deadTopic(stage))
    complain(`messages of ${stage} taken for poison`, 0,
      letters.filter(({ headers }) => headers['dead_reason'] === POISON).length)
  }
}

/** The bitmaps of every readable block, by which its rows are counted, say what its rows do. */
async function checkBlocks (
  { pipeline: { bus, messageCodec } }: Evidence, complain: Complain
): Promise<void> {
  for (const topic of LANES.map(lane => topicName('rows.completed', { lane }))) {
    for (const raw of bus.messages(topic)) {
      const opened = await messageCodec.decode(raw).catch(() => undefined)
      if (opened?.kind !== 'message') continue
      const { value, rows } = opened.message as Incoming<'rows.completed'>
      const block = rows()
      const [sources, reasons] = ['source', 'reason'].map(name => cellsIn(block, name) ?? [])
      const byEnd = Map.groupBy(block.rows.entries(), ([at]) => {
        const source = sources?.[at] ?? ''
        return source === 'none' && reasons?.[at] === 'cancelled' ? 'cancelled' : source
      })
      const { finished, cached, live, invalid, unknown, cancelled } = value
      const ended = ['cache', 'live', 'preflight', 'none', 'cancelled']
        .map(end => (byEnd.get(end) ?? []).map(([, row]) => row))
      const bitmaps = [finished, cached, live, invalid, unknown, cancelled]
      complain(`bitmaps of a block of ${value.job}`,
        [block.rows, ...ended], bitmaps.map(bitmap => [...indexes(bitmap)]))
      complain(`cells of a block of ${value.job}`, [],
        block.columns.filter(({ name }) => cellsIn(block, name)?.length !== block.rows.length))
      const copies = (byEnd.get('duplicate') ?? []).map(([, row]) => row)
      complain(`originals in a block of ${value.job} that are copies`, [],
        value.duplicates.filter(({ row }) => copies.includes(row)))
    }
  }
}

/** No message is held forever: every group has committed all of its topics. */
function checkHeld ({ pipeline: { bus } }: Evidence, complain: Complain): void {
  for (const { group, topics } of listSubscriptions('lookup')) {
    for (const topic of topics) {
      const ends = new Map<number, bigint>()
      for (const { partition, offset } of bus.messages(topic)) ends.set(partition, offset + 1n)
      for (const [partition, end] of ends) {
        complain(`messages held by ${group}`, 0,
          Number(end - bus.committed(group, topic, partition)))
      }
    }
  }
}

/** The wallet equation, a journal without a gap, and one reserve and one end for every job. */
async function checkMoney (
  { pipeline, sent, funded }: Evidence,
  { tenant, redis, chargedMicros }: {
    readonly tenant: string, readonly redis: Redis, readonly chargedMicros: number
  },
  complain: Complain
): Promise<void> {
  const money = await createWallet(redis).balance(tenant)
  const { availableMicros, reservedMicros, fundedMicros } = money
  complain(`${tenant} equation`, fundedMicros,
    availableMicros + reservedMicros + money.chargedMicros)
  const given = funded.find(one => one.tenant === tenant)?.amountMicros
  complain(`${tenant} funded`, given, fundedMicros)
  complain(`${tenant} reserved`, 0, reservedMicros)
  complain(`${tenant} charged`, chargedMicros, money.chargedMicros)
  complain(`${tenant} slots`, '0', await redis.hget(moneyKeys(tenant).wallet, 'slots') ?? '0')
  complain(`${tenant} open jobs`, [], await createJobStore(redis).openJobs(tenant))
  const { entries } = await pipeline.stores.journal.read(tenant)
  complain(`${tenant} journal`, money.seq, entries.length)
  complain(`${tenant} seq`, entries.map((_, index) => index + 1), entries.map(({ seq }) => seq))
  const jobs = sent.flatMap(({ outcome, ...of }) =>
    of.tenant === tenant && outcome.kind === 'accepted' ? [outcome.job] : [])
  const accepted = jobs.map(({ id }) => id).toSorted()
  const jobsOf = (types: readonly string[]) => entries
    .filter(({ type }) => types.includes(type)).map(({ job }) => job).toSorted()
  complain(`${tenant} reservations`, accepted, jobsOf(['reserve']))
  complain(`${tenant} ends`, accepted, jobsOf(['settle', 'void']))
  const reserved = entries.filter(({ type }) => type === 'reserve')
  complain(`${tenant} reserved amounts`,
    jobs.map(({ id, preflight }) => [id, preflight.maxQuoteMicros]).toSorted(),
    reserved.map(({ job, amountMicros }) => [job, amountMicros]).toSorted())
}
