import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Emission } from '../../services/runtime/engine/stage.ts'
import { redisRecordCache } from '../../services/cache/cache.ts'
import type { Job } from '../../services/jobs/job.ts'
import { toTallyBlock } from '../../services/jobs/results/block.ts'
import { ChunkLoader } from '../../services/lookup/read.ts'
import { LookupStage } from '../../services/lookup/main.ts'
import type { CheckResult } from '../../services/verify/checker.ts'
import type { ProviderRow } from '../../services/verify/provider.ts'
import { VerifyStage } from '../../services/verify/stage.ts'
import { jobClaim } from '../support/jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'
import {
  cachedRecord, checkerBy, chunksOf, createManualClock, delivered, downFor, emitted, JOB, tokenFor,
  VERIFY_SETTINGS,
} from '../support/stage-messages.ts'

const { redis, store, wallet, fundedTenant } = await startJobStore()
const cache = redisRecordCache(redis, { onFault: error => { throw error } })

const signal = new AbortController().signal
const PRICE_MICROS = 10
const CHUNK_ROWS = 5
const HOUR_MS = 3_600_000
const phone = (last: number) => `+1212736${5_000 + last}`
const tokensOf = (contacts: readonly number[]) =>
  Buffer.concat(contacts.map(contact => tokenFor(phone(contact))))

/** What happens to one job: `-1` is an invalid row, other numbers are contacts. */
type Scenario = {
  readonly contacts: readonly number[]
  readonly cachedBefore: readonly number[]
  /** Contacts that other jobs of the tenant check, and that the cache forgets, in between. */
  readonly cachedBetween: readonly number[]
  readonly forgottenBetween: readonly number[]
  /** Contacts that no provider has a verdict for. */
  readonly unanswered: readonly number[]
  readonly forceFresh: boolean
  readonly isCancelled: boolean
  readonly isDownAtFirst: boolean
  /** `lookup` crashes after it has announced the job, or before. */
  readonly isAnnounced: boolean
  /** Blocks come to the tally in the order of these numbers, taken in turn. */
  readonly order: readonly number[]
}

const some = fc.uniqueArray(fc.integer({ min: 0, max: 9 }))
const scenarios: fc.Arbitrary<Scenario> = fc.record({
  contacts: fc.array(fc.integer({ min: -1, max: 9 }), { minLength: 1, maxLength: 25 }),
  cachedBefore: some,
  cachedBetween: some,
  forgottenBetween: some,
  unanswered: fc.oneof(some, fc.constant([])),
  forceFresh: fc.boolean(),
  isCancelled: fc.boolean(),
  isDownAtFirst: fc.boolean(),
  isAnnounced: fc.boolean(),
  order: fc.array(fc.nat(), { minLength: 1, maxLength: 20 }),
})

/** A claimed job of a tenant of its own, and the stages that handle it on a real Redis. */
async function start (scenario: Scenario) {
  const tenant = await fundedTenant()
  await store.claim(tenant, jobClaim(JOB))
  const startedMs = Date.now()
  const clock = createManualClock(startedMs)
  const state = { isDown: scenario.isDownAtFirst, checks: 0, blocked: new Set<string>() }
  const check = async (rows: readonly ProviderRow[]): Promise<CheckResult> => {
    if (state.isDown) return downFor(rows)
    state.checks += rows.length
    const silent = new Set(scenario.unanswered.map(phone))
    return {
      open: new Map(),
      verdicts: new Map(rows.filter(({ canonical }) => !silent.has(canonical))
        .map(({ row }) =>
          [row, { status: 'valid', reason: 'assigned_range', confidence: 90, fields: {} }])),
    }
  }
  const lookup = new LookupStage({
    store,
    loader: new ChunkLoader(cache),
    clock,
    unitPriceMicros: () => PRICE_MICROS,
    policy: async () => ({ freshnessMs: 24 * HOUR_MS, maxActiveJobs: 10 }),
    lists: {
      find: async (_org, contacts) =>
        contacts.map(contact => state.blocked.has(contact) ? 'block' : undefined),
      hasMailServers: async () => false,
    },
    batchRows: () => 2,
    batch: 25,
    lostAfterIdlePolls: 300,
    onUndecidable: (_job, error) => { throw error },
  })
  const verify = new VerifyStage({
    store, cache, checker: checkerBy(check), clock, sleep: clock.sleep, ...VERIFY_SETTINGS,
  })
  const scope = { tenant, service: 'phone-validation', version: '1' } as const
  const record = cachedRecord({ checkedAtMs: startedMs - HOUR_MS })
  return {
    tenant,
    clock,
    state,
    lookup,
    verify,
    remember: (contacts: readonly number[]) =>
      cache.store(scope, tokensOf(contacts), contacts.map(() => record)),
    forget: (contacts: readonly number[]) => cache.erase(scope, tokensOf(contacts)),
    chunks: chunksOf(scenario.contacts.map(contact => contact < 0 ? '' : phone(contact)), {
      chunkRows: CHUNK_ROWS,
      forceFresh: scenario.forceFresh,
      tenant,
      submittedAt: startedMs,
      acceptBy: startedMs + HOUR_MS,
    }),
  }
}

type Started = Awaited<ReturnType<typeof start>>

/** The blocks of one delivery of the job, each of its parts delivered twice. */
async function deliver (started: Started, scenario: Scenario) {
  const { tenant, lookup, chunks } = started
  lookup.forget()
  const decided = await lookup.decide(chunks)
  if (scenario.isAnnounced) for (const { afterProduced } of decided) await afterProduced?.()
  if (scenario.isCancelled) await store.cancel(tenant, JOB)
  const blocks = emitted(decided, 'rows.completed')
  for (const missed of emitted(decided, 'rows.to-verify')) {
    blocks.push(...await checkUntilDone(started, missed))
    blocks.push(...await checkUntilDone(started, missed))
  }
  return blocks
}

async function checkUntilDone (started: Started, missed: Emission<'rows.to-verify'>) {
  const blocks: Emission<'rows.completed'>[] = []
  let next: Emission<'rows.to-verify'> | Emission<'rows.retry'> | undefined = missed
  while (next !== undefined) {
    const decided = await started.verify.decide([delivered(next)], signal)
    blocks.push(...emitted(decided, 'rows.completed'))
    next = emitted(decided, 'rows.retry')[0]
    started.clock.advance(60_000)
    started.state.isDown = false
  }
  return blocks
}

/** `blocked`: the contacts that the lists refuse at the first delivery and at the second. */
async function runScenario (
  scenario: Scenario, blocked: readonly (readonly number[])[] = []
) {
  const started = await start(scenario)
  const [first = [], second = []] = blocked.map(contacts => new Set(contacts.map(phone)))
  started.state.blocked = new Set(first)
  await started.remember(scenario.cachedBefore)
  const blocks = await deliver(started, scenario)
  const checksOnce = started.state.checks
  await started.forget(scenario.forgottenBetween)
  await started.remember(scenario.cachedBetween)
  started.state.blocked = new Set(second)
  blocks.push(...await deliver(started, scenario))
  return { tenant: started.tenant, blocks, checksOnce }
}

/** Blocks in the order in which they come to the tally. */
function inOrder<T> (blocks: readonly T[], { order }: Scenario): readonly T[] {
  return blocks.map((block, index) => ({ block, place: order[index % order.length] ?? 0 }))
    .sort((a, b) => a.place - b.place)
    .map(({ block }) => block)
}

/** The job after each of its blocks was counted, in this order. */
async function countAll (
  tenant: string, blocks: readonly Emission<'rows.completed'>[]
): Promise<Job> {
  const sealed = blocks.map(({ value, rows }) =>
    ({ ...value, rowsSchema: 1, sealed: Buffer.from(JSON.stringify(rows)) }))
  await store.tallyAll(tenant, sealed.map(toTallyBlock))
  const outcome = await store.outcome(tenant, JOB)
  if (outcome.kind !== 'accepted') throw new Error(`the job is ${outcome.kind}`)
  return outcome.job
}

describe('the rows of a job, whatever is delivered again and whatever the cache does', () => {
  it('are each finished exactly once, and never cost more than the quote', async () => {
    const seen = { capped: 0, once: 0 }
    /** The contacts that lists refuse at each of two deliveries; none where there are no lists. */
    const refused = fc.option(fc.tuple(some, some), { nil: undefined, freq: 2 })
    await fc.assert(fc.asyncProperty(scenarios, refused, async (scenario, lists) => {
      const { tenant, blocks, checksOnce } = await runScenario(scenario, lists)
      const job = await countAll(tenant, inOrder(blocks, scenario))
      const {
        counts, preflight: { invalidRows, duplicateRows, freshChecks, maxQuoteMicros },
      } = job
      const total = scenario.contacts.length
      expect([job.ended, counts.finishedRows]).toEqual([true, total])
      expect(counts.successRecords + counts.failedRecords).toBe(total)
      if (lists === undefined) {
        expect([counts.invalidRecords, counts.duplicateRecords])
          .toEqual([invalidRows, duplicateRows])
      }
      expect(counts.cacheHits + counts.freshRecords + counts.unknownRecords +
        counts.cancelledRecords).toBe(total - counts.invalidRecords - counts.duplicateRecords)
      if (scenario.isCancelled) {
        expect(counts.freshRecords).toBe(0)
        if (lists === undefined) expect(counts.unknownRecords).toBe(0)
      } else expect(counts.cancelledRecords).toBe(0)
      // A batch that is delivered twice buys nothing twice.
      if (lists === undefined && scenario.unanswered.length === 0) {
        const checks = scenario.isCancelled ? 0 : freshChecks
        expect(checksOnce).toBe(checks)
        if (checks > 0) seen.once += 1
      }
      const liveMicros = counts.freshRecords * PRICE_MICROS
      // Where the lists refuse others the second time, more rows are live than were reserved for.
      expect(job.chargedMicros)
        .toBe(lists === undefined ? liveMicros : Math.min(liveMicros, maxQuoteMicros))
      if (liveMicros > maxQuoteMicros) seen.capped += 1
      expect(job.chargedMicros + job.releasedMicros).toBe(maxQuoteMicros)
      expect(counts.inputBlocks).toBe(Math.ceil(total / CHUNK_ROWS))
      const money = await wallet.balance(tenant)
      expect(await countAll(tenant, blocks)).toEqual(job)
      expect(await wallet.balance(tenant)).toEqual(money)
    }), { numRuns: 500 })
    expect([seen.once > 20, seen.capped > 1]).toEqual([true, true])
  })
})
