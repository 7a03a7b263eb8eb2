import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { deriveEventId } from '../../services/webhooks/event.ts'
import type { Job } from '../../services/jobs/job.ts'
import { post, ZERO_AMOUNTS } from '../../services/money/prices.ts'
import { moneyKeys } from '../../services/money/redis-keys.ts'
import { canonicalText, CHAIN_START, extendChain } from '../../services/money/journal.ts'
import { audit, readSettledState } from '../../services/admin/audit/audit.ts'
import { jobRedisKeys, toRecord } from '../../services/jobs/job-record.ts'
import { auditIncrementally } from '../../services/admin/audit/incremental.ts'
import { auditTable } from '../../services/admin/audit/report.ts'
import { startRedis } from '../support/redis/redis.ts'
import { endedJob } from '../support/clickhouse/results.ts'
import { entryOf } from '../support/stage-messages.ts'
import { deliveryAttempt } from '../support/webhooks/deliveries.ts'
import { IS_FAST } from '../support/tier.ts'

const RUNS = IS_FAST ? 100 : 300

const { redis } = await startRedis()
const HOUR_MS = 3_600_000
const nowMs = Date.now()
let tenants = 0
const NO_MONEY = { available: 0, reserved: 0, charged: 0, funded: 0, seq: 0 }

type IncrementalDeps = Parameters<typeof auditIncrementally>[0]
type ProofDeps = Omit<IncrementalDeps, 'kafka'>
type Position = Awaited<ReturnType<typeof auditIncrementally>>['proven']
type ProvenHead = Position extends ReadonlyMap<string, infer Head> ? Head : never

/** What is stored of a tenant. */
type Stored = {
  readonly entries: Journal[]
  readonly jobs: Job[]
  /** Numbers of rows that no service stored, and jobs whose last delivery has failed. */
  readonly forged: number[]
  readonly late: string[]
  /** The wallet in Redis, with the entries of its outbox. */
  readonly wallet: Record<'available' | 'reserved' | 'charged' | 'funded' | 'seq', number> &
    Record<`entry:${number}`, string>
}

/** A top-up and jobs of one row, with some hours between two entries. */
function historyOf (
  tenant: string, { jobs, hours, unitPriceMicros }: Omit<Scenario, 'place' | 'broken' | 'proven'>
): Stored {
  const stored: Omit<Stored, 'wallet'> = { entries: [], jobs: [], forged: [], late: [] }
  let amounts = ZERO_AMOUNTS
  const add = (entry: Pick<Journal, 'type' | 'amountMicros'> & Partial<Journal>) => {
    const seq = stored.entries.length + 1
    const whole = { ...entryOf(tenant, endedJob()), seq, chargeMicros: 0, job: '', ...entry }
    amounts = post(amounts, whole)
    const at = nowMs - (2 * jobs + 1 - seq) * hours * HOUR_MS
    stored.entries.push({ ...whole, ...amounts, at, entryId: `${entry.type}:${seq}` })
  }
  add({ type: 'topup', amountMicros: 1_000_000 })
  for (let number = 1; number <= jobs; number++) {
    const id = `job_${String(number).padStart(26, '0')}`
    const maxQuoteMicros = 2 * unitPriceMicros
    const chargedMicros = unitPriceMicros
    const usual = endedJob({ id, tenant, unitPriceMicros })
    const claimedAt = nowMs - (2 * jobs - 2 * number) * hours * HOUR_MS
    const reason = JSON.stringify({ idempotencyKey: `key ${number}`, claimedAt: String(claimedAt) })
    add({ type: 'reserve', amountMicros: maxQuoteMicros, job: id, reason })
    add({ type: 'settle', amountMicros: maxQuoteMicros, chargeMicros: chargedMicros, job: id })
    stored.jobs.push({
      ...usual,
      endedAtMs: nowMs - HOUR_MS,
      chargedMicros,
      releasedMicros: maxQuoteMicros - chargedMicros,
      preflight: { ...usual.preflight, totalRows: 1, maxQuoteMicros },
      counts: { ...usual.counts, freshRecords: 1, successRecords: 1 },
    })
  }
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  const wallet = {
    available: availableMicros,
    reserved: reservedMicros,
    charged: chargedMicros,
    funded: fundedMicros,
    seq: stored.entries.length,
  }
  return { ...stored, wallet }
}

const failedLongAgo = (job: string) => deliveryAttempt({
  tenant: '', job, event: deriveEventId(job, 'job.completed'), atMs: nowMs - 200 * HOUR_MS,
})

function partsOf ({ entries, jobs, forged, late }: Stored): ProofDeps {
  const sorted = entries.toSorted((a, b) => a.seq - b.seq)
  const archived = jobs.map(job => ({ job, manifest: [] }))
  const among = (ids: readonly string[]) => archived.filter(({ job }) => ids.includes(job.id))
  const ends = new Set(entries.filter(({ type }) => type === 'settle').map(({ job }) => job))
  return {
    redis,
    journal: {
      read: async () => ({ entries: sorted, forged }),
      pages: async function * (_tenant, { seq, atMs }) {
        const first = sorted.find(entry => entry.seq >= seq || entry.at >= atMs)?.seq ?? seq
        const found = sorted.filter(entry => entry.seq >= first)
        for (let at = 0; at < found.length; at += 3) {
          yield { entries: found.slice(at, at + 3), forged: [] }
        }
        yield { entries: [], forged }
      },
      counts: async last => new Map([...last.keys()].map(tenant => [tenant, Infinity])),
      lengths: async () => new Map(entries.map(({ tenant, seq }) => [tenant, seq])),
    },
    archive: {
      listWithManifest: async (_tenant, { before }) => before === '' ? archived : [],
      findAll: async (_tenant, ids) => new Map(among(ids).map(({ job }) => [job.id, job])),
      findAllWithManifest: async (_tenant, ids) => among(ids),
    },
    history: {
      listAll: async (_tenant, ids) => ids.filter(id => late.includes(id)).map(failedLongAgo),
    },
    results: {
      csvStream: async function * () {
        yield Buffer.from('row,status,source,reason\r\n1,valid,live,\r\n')
      },
    },
    counts: {
      sharedIds: async () => entries.length - new Set(entries.map(entry => entry.entryId)).size,
      jobsWithoutEnd: async () => jobs.filter(({ id }) => !ends.has(id)).length,
      rowsSince: async () => 0,
    },
  }
}

const provenOf = (entries: readonly Journal[], at: number): ProvenHead => ({
  ...entries.reduce(extendChain, CHAIN_START),
  before: entries.slice(0, -1).reduce(extendChain, CHAIN_START),
  at,
})

/** Audits a tenant from a position; a Kafka that was not read finds nothing itself. */
async function auditFrom (deps: ProofDeps, tenant: string, from?: ProvenHead) {
  const kafka: IncrementalDeps['kafka'] = {
    texts: async () => undefined as never, containing: async spans => new Set(spans.keys()),
  }
  const { report, proven } = await auditIncrementally({ ...deps, kafka }, {
    only: [tenant],
    waitMs: 0,
    from: new Map(from === undefined ? [] : [[tenant, from]]),
    onProgress: () => {},
  })
  return { ...report, isProven: proven.has(tenant), rows: report.tenants[0]?.rows }
}

const jobAt = ({ entries, jobs }: Stored, at: number) =>
  jobs.findIndex(({ id }) => id === entries[Math.max(at, 1)]!.job)

/**
 * Ways to break what is stored at a place of the journal; what is returned is how many entries an
 * audit may have proven before, those up to the place if nothing is.
 */
const BREAKS: Readonly<Record<string, (stored: Stored, at: number) => number | void>> = {
  'an entry is gone': ({ entries }, at) => { entries.splice(at, 1) },
  'the last job is gone': ({ entries, jobs }) => {
    entries.splice(-2)
    jobs.pop()
    return entries.length
  },
  'the last entry was not shipped': ({ entries, wallet }) => {
    const texts = Object.entries(entries.pop()!).map(([name, value]) => [name, String(value ?? '')])
    wallet[`entry:${wallet.seq}`] = JSON.stringify(Object.fromEntries(texts))
    return entries.length
  },
  'an entry is another': ({ entries }, at) => {
    entries[at] = { ...entries[at]!, availableMicros: entries[at]!.availableMicros + 1 }
  },
  'the balance is another': ({ entries, wallet }) => {
    wallet.available += 1
    wallet.funded += 1
    return entries.length
  },
  'a reservation of nothing has no job': ({ entries, wallet }) => {
    const last = entries.at(-1)!
    wallet.seq += 1
    entries.push({
      ...last, type: 'reserve', amountMicros: 0, seq: wallet.seq, entryId: 'odd', job: 'job_odd',
    })
    return wallet.seq - 1
  },
  'a row is forged': ({ forged }) => { forged.push(7) },
  'a number is taken twice': ({ entries }, at) => {
    entries.push({ ...entries[at]!, type: 'topup', entryId: 'again', job: '', amountMicros: 5 })
  },
  'an entry is beyond the last': ({ entries }, at) => {
    entries.push({ ...entries[at]!, entryId: 'beyond', seq: entries.length + 1 })
  },
  'two entries share an id': ({ entries }, at) => {
    entries[at] = { ...entries[at]!, entryId: entries[at === 0 ? 1 : 0]!.entryId }
  },
  'a job is not stored': (stored, at) => { stored.jobs.splice(jobAt(stored, at), 1) },
  'a job says another charge': (stored, at) => {
    const index = jobAt(stored, at)
    const job = stored.jobs[index]!
    stored.jobs[index] = { ...job, chargedMicros: job.chargedMicros + 1 }
  },
  'a job lacks a row': (stored, at) => {
    const index = jobAt(stored, at)
    const job = stored.jobs[index]!
    stored.jobs[index] = { ...job, preflight: { ...job.preflight, totalRows: 2 } }
  },
  'a job has no entries': ({ jobs }) => { jobs.push({ ...jobs[0]!, id: 'job_stray' }) },
  'a delivery is late': (stored, at) => {
    const { id } = stored.jobs[jobAt(stored, at)]!
    stored.late.push(id)
    return stored.entries.findLast(({ job }) => job === id)?.seq
  },
  'a key made two jobs': ({ entries }, at) => {
    const [reserve, next] = entries.filter(({ type }) => type === 'reserve').slice(at >> 1)
    if (next === undefined) entries.splice(at, 1)
    else entries[next.seq - 1] = { ...next, reason: reserve!.reason }
    return next === undefined ? at : next.seq - 1
  },
}

const scenario = fc.record({
  jobs: fc.integer({ min: 1, max: 12 }),
  hours: fc.constantFrom(0.1, 3, 20),
  unitPriceMicros: fc.constantFrom(0, 2_000),
  place: fc.nat(),
  proven: fc.nat(),
  broken: fc.constantFrom(undefined, ...Object.keys(BREAKS)),
})

type Scenario = typeof scenario extends fc.Arbitrary<infer T> ? T : never

async function stored (given: Scenario) {
  const { place, broken } = given
  const tenant = `org_${++tenants}.live`
  const whole = historyOf(tenant, given)
  const count = whole.entries.length
  const at = place % count
  const now: Stored = {
    ...whole, entries: [...whole.entries], jobs: [...whole.jobs], wallet: { ...whole.wallet },
  }
  const sound = broken === undefined ? count : BREAKS[broken]?.(now, at) ?? at
  await redis.hset(moneyKeys(tenant).wallet, now.wallet)
  return { tenant, whole, sound, parts: partsOf(now), isBroken: broken !== undefined }
}

const SOUND: Scenario = {
  jobs: 1, hours: 3, unitPriceMicros: 2_000, place: 0, proven: 0, broken: undefined,
}

it('a tenant that Redis does not list is audited by its copy', async () => {
  const { tenant, parts } = await stored({ ...SOUND, broken: 'an entry is gone' })
  const kafka = { texts: async () => undefined as never, containing: async () => new Set<string>() }
  const incremental = await auditIncrementally(
    { ...parts, kafka }, { waitMs: 0, from: new Map(), onProgress: () => {} })
  for (const report of [incremental.report, await audit(parts, { waitMs: 0 })]) {
    expect(report).toMatchObject({ ok: false, tenants: [{ tenant }] })
  }
})

it('a Redis that has fewer movements than Kafka is a breach', async () => {
  const { tenant, whole, parts } = await stored(SOUND)
  const auditOf = async (...more: readonly number[]) => {
    const texts = new Map(whole.entries.map(entry => [entry.seq, [canonicalText(entry)]]))
    for (const seq of more) texts.set(seq, ['of a Redis that is lost'])
    const kafka = { texts: async () => new Map([[tenant, texts]]) }
    return await audit({ ...parts, kafka } as never, { only: [tenant], waitMs: 0 })
  }
  expect((await auditOf()).breaches).toEqual([])
  expect((await auditOf(4, 5)).breaches).toEqual([{
    tenant,
    job: '',
    rule: 'the journal is numbered 1 to n',
    detail: 'entries 4 to 5 exist in Kafka, but Redis has only 3 movements',
  }])
})

describe('the proof of a tenant', () => {
  it('from its first entry exists if and only if the audit finds no breach', async () => {
    await fc.assert(fc.asyncProperty(scenario, async given => {
      const { tenant, parts, isBroken } = await stored(given)
      const { breaches, isProven, tenants } = await auditFrom(parts, tenant)
      expect([breaches.length > 0, isProven]).toEqual([isBroken, !isBroken])
      if (!isProven) return
      const complete = await audit(parts, { only: [tenant], waitMs: 0 })
      expect(complete).toEqual({ ok: true, breaches: [], tenants })
    }), { numRuns: RUNS })
  })

  it('from a position does not exist after a later breach, and reads no more', async () => {
    await fc.assert(fc.asyncProperty(scenario, async given => {
      const { tenant, whole, sound, parts, isBroken } = await stored(given)
      const entries = whole.entries.slice(0, given.proven % (sound + 1))
      const last = entries.at(-1)
      const from = provenOf(entries, last?.at ?? nowMs)
      const { isProven, rows } = await auditFrom(parts, tenant, last && from)
      expect(isProven).toBe(!isBroken)
      const ends = whole.entries.slice(entries.length).filter(({ type }) => type === 'settle')
      if (isProven) expect(rows).toBe(ends.length)
    }), { numRuns: RUNS })
  })

  it('does not exist from a position of another journal', async () => {
    const { tenant, whole, parts } = await stored(
      { jobs: 3, hours: 3, unitPriceMicros: 0, place: 0, proven: 0, broken: undefined })
    const proven = provenOf(whole.entries, nowMs)
    const proofFrom = async (change: Partial<ProvenHead>) =>
      (await auditFrom(parts, tenant, { ...proven, ...change })).isProven
    expect((await auditFrom(parts, tenant, proven)).rows).toBe(0)
    expect([
      await proofFrom({}), await proofFrom({ seq: proven.seq + 1 }),
      await proofFrom({ seq: proven.seq - 1 }), await proofFrom({ hash: CHAIN_START.hash }),
      await proofFrom({ before: CHAIN_START }),
    ]).toEqual([true, false, false, false, false])
  })

  it('does not exist once another entry of a number before the position came', async () => {
    const { tenant, whole } = await stored({ ...SOUND, jobs: 3 })
    const { entries } = whole
    const from = provenOf(entries, nowMs)
    expect((await auditFrom(partsOf(whole), tenant, from)).isProven).toBe(true)
    for (const { seq, at } of entries) {
      const elsewhere = { type: 'topup', entryId: 'elsewhere', job: '', amountMicros: 5 }
      const late = { ...entries[0]!, ...elsewhere, seq, at }
      const parts = partsOf({ ...whole, entries: [...entries, late] })
      const { breaches, isProven } = await auditFrom(parts, tenant, from)
      expect(isProven).toBe(false)
      expect(breaches).toContainEqual(
        expect.objectContaining({ detail: `two entries have the number ${seq}` }))
    }
  })
})

it('an audit counts each movement of a resolved contradiction once, and is ok', async () => {
  const { tenant, whole: { entries, jobs } } = await stored(
    { jobs: 3, hours: 3, unitPriceMicros: 2_000, place: 0, proven: 0, broken: undefined })
  const last = entries.at(-1)!
  const numbers = (...more: readonly Journal[]) => partsOf(
    { entries: [...entries, ...more], jobs: [...jobs], forged: [], late: [], wallet: NO_MONEY })
  const elsewhere = { type: 'topup', entryId: 'topup:9', job: '', amountMicros: 5, chargeMicros: 0 }
  const contradicting = { ...last, ...post(entries[1]!, elsewhere), ...elsewhere, seq: 3 }
  const before = await auditFrom(numbers(contradicting), tenant)
  expect(before.ok).toBe(false)
  expect(before.breaches).toContainEqual(
    expect.objectContaining({ detail: 'two entries have the number 3' }))
  const amounts = post(last, elsewhere)
  await redis.hset(moneyKeys(tenant).wallet, {
    available: amounts.availableMicros, funded: amounts.fundedMicros, seq: last.seq + 1,
  })
  const resolving = { ...last, ...amounts, ...elsewhere, seq: last.seq + 1 }
  const resolved = await auditFrom(numbers(contradicting, resolving), tenant)
  expect(resolved).toMatchObject({ ok: true, breaches: [], isProven: false })
  expect(resolved.tenants).toMatchObject([{ entries: last.seq + 1, resolvedContradictions: 1 }])
  expect(auditTable(resolved, true)).toContain(`${tenant} has 1 resolved contradiction\n`)
  expect((await auditFrom(numbers(resolving), tenant)).tenants)
    .not.toMatchObject([{ resolvedContradictions: 1 }])
  // One that lost an entry since is not resolved any more.
  const lost = await auditFrom(partsOf({
    entries: [...entries.toSpliced(2, 1), contradicting, resolving],
    jobs: [...jobs],
    forged: [],
    late: [],
    wallet: NO_MONEY,
  }), tenant)
  expect(lost.ok).toBe(false)
})

it('an audit waits for jobs whose end Redis has lost and the journal has', async () => {
  const tenant = `org_${++tenants}.live`
  const { wallet } = moneyKeys(tenant)
  const job = endedJob({ tenant, ended: false, closed: false })
  const { job: record } = jobRedisKeys(tenant, job.id)
  await redis.hset(wallet, `open:${job.id}`, nowMs)
  await redis.hset(record, ...toRecord(job), 'journaledSettleSeq', '2')
  const deps = partsOf({ entries: [], jobs: [], forged: [], late: [], wallet: NO_MONEY })
  expect((await readSettledState(deps, tenant, 0)).isSettled).toBe(false)
  const reading = readSettledState(deps, tenant, 60_000)
  await redis.hset(record, 'ended', '1', 'closed', '1')
  expect((await reading).isSettled).toBe(true)
})
