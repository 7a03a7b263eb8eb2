import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Emission } from '../../services/runtime/engine/stage.ts'
import { ChunkLoader } from '../../services/lookup/read.ts'
import { LookupStage } from '../../services/lookup/stage.ts'
import type { CheckResult } from '../../services/verify/checker.ts'
import type { ProviderRow } from '../../services/verify/provider.ts'
import { createVerifyStage } from '../../services/verify/stage.ts'
import { createCacheDouble } from '../support/cache-double.ts'
import { cellsIn } from '../support/clickhouse/cells.ts'
import {
  both, cachedRecord, chunksOf, createManualClock, createStoreDouble, createTallyDouble, delivered,
  downFor, emitted, JOB, rowsOf, tokenFor,
} from '../support/stage-doubles.ts'

const signal = new AbortController().signal
const PRICE_MICROS = 10
const CHUNK_ROWS = 5
const phone = (last: number) => `+1212736${5_000 + last}`
const nameOf = (last: number) => tokenFor(phone(last)).toString('hex')

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
  /** Blocks come to the tally in the order of these numbers, taken in turn. */
  readonly order: readonly number[]
}

const some = fc.uniqueArray(fc.integer({ min: 0, max: 9 }))
const scenarios: fc.Arbitrary<Scenario> = fc.record({
  contacts: fc.array(fc.integer({ min: -1, max: 9 }), { minLength: 1, maxLength: 25 }),
  cachedBefore: some,
  cachedBetween: some,
  forgottenBetween: some,
  unanswered: some,
  forceFresh: fc.boolean(),
  isCancelled: fc.boolean(),
  isDownAtFirst: fc.boolean(),
  order: fc.array(fc.nat(), { minLength: 1, maxLength: 20 }),
})

function stagesOf (scenario: Scenario) {
  const clock = createManualClock()
  const store = createStoreDouble({ clock })
  const cache = createCacheDouble()
  const state = { isDown: scenario.isDownAtFirst, checks: 0 }
  const check = async (rows: readonly ProviderRow[]): Promise<CheckResult> => {
    if (state.isDown) return downFor(rows)
    state.checks += rows.length
    const silent = new Set(scenario.unanswered.map(phone))
    return {
      kind: 'answered',
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
    policy: async () => ({ freshnessMs: 86_400_000, maxActiveJobs: 10 }),
    batchRows: () => 2,
    batch: 25,
  })
  const verify = createVerifyStage({
    store,
    cache,
    check,
    clock,
    sleep: clock.sleep,
    leaseMs: 30_000,
    leasePollMs: 250,
    concurrencyOf: () => 4,
    batch: 8,
    retryDelayMs: 60_000,
    retryForMs: 900_000,
    hostRetryForMs: 900_000,
  })
  return { clock, store, cache, state, lookup, verify }
}

type Stages = ReturnType<typeof stagesOf>

/** The blocks of one delivery of the job, each of its parts delivered twice. */
async function deliver (stages: Stages, scenario: Scenario): Promise<Emission<'rows.completed'>[]> {
  const canonicals = scenario.contacts.map((it) => it < 0 ? '' : phone(it))
  const chunks = chunksOf(canonicals, { chunkRows: CHUNK_ROWS, forceFresh: scenario.forceFresh })
  stages.lookup.forget()
  const decided = await stages.lookup.decide(chunks)
  if (scenario.isCancelled) stages.store.change(JOB, { status: 'cancelling' })
  const blocks = emitted(decided, 'rows.completed')
  for (const missed of emitted(decided, 'rows.to-verify')) {
    blocks.push(...await checkUntilDone(stages, missed))
    blocks.push(...await checkUntilDone(stages, missed))
  }
  return blocks
}

async function checkUntilDone (stages: Stages, missed: Emission<'rows.to-verify'>) {
  const blocks: Emission<'rows.completed'>[] = []
  let next: Emission<'rows.to-verify'> | Emission<'rows.retry'> | undefined = missed
  while (next !== undefined) {
    const decided = await stages.verify.decide([delivered(next)], signal)
    blocks.push(...emitted(decided, 'rows.completed'))
    next = emitted(decided, 'rows.retry')[0]
    stages.clock.advance(60_000)
    stages.state.isDown = false
  }
  return blocks
}

async function runScenario (scenario: Scenario) {
  const stages = stagesOf(scenario)
  const { cache } = stages
  for (const it of scenario.cachedBefore) cache.entries.set(nameOf(it), cachedRecord())
  const blocks = await deliver(stages, scenario)
  const checksOnce = stages.state.checks
  for (const it of scenario.forgottenBetween) cache.entries.delete(nameOf(it))
  for (const it of scenario.cachedBetween) cache.entries.set(nameOf(it), cachedRecord())
  blocks.push(...await deliver(stages, scenario))
  const { preflight } = stages.store.jobs.get(JOB)!
  return { blocks, preflight, checksOnce }
}

describe('the rows of a job, whatever is delivered again and whatever the cache does', () => {
  it('are each finished exactly once, and never cost more than the quote', async () => {
    await fc.assert(fc.asyncProperty(scenarios, async (scenario) => {
      const { blocks, preflight } = await runScenario(scenario)
      const tally = createTallyDouble()
      const placeOf = (index: number) => scenario.order[index % scenario.order.length] ?? 0
      const shuffled = blocks.map((block, index) => ({ block, place: placeOf(index) }))
        .sort((a, b) => a.place - b.place)
      shuffled.forEach(({ block }) => tally.add(block))
      const { totals } = tally
      const { invalidRows, duplicateRows, maxQuoteMicros } = preflight
      expect(totals.rows).toBe(scenario.contacts.length)
      expect(totals.succeeded + totals.failed).toBe(scenario.contacts.length)
      expect([totals.invalid, totals.duplicates]).toEqual([invalidRows, duplicateRows])
      expect(totals.cached + totals.live + totals.unknown + totals.cancelled)
        .toBe(scenario.contacts.length - invalidRows - duplicateRows)
      if (scenario.isCancelled) expect([totals.live, totals.unknown]).toEqual([0, 0])
      else expect(totals.cancelled).toBe(0)
      expect(totals.live * PRICE_MICROS).toBeLessThanOrEqual(maxQuoteMicros)
      expect(totals.inputBlocks).toBe(Math.ceil(scenario.contacts.length / CHUNK_ROWS))
      const before = { ...totals }
      blocks.forEach(tally.add)
      expect(totals).toEqual(before)
    }), { numRuns: 200 })
  })

  it('are in bitmaps that agree', async () => {
    await fc.assert(fc.asyncProperty(scenarios, async (scenario) => {
      const { blocks } = await runScenario(scenario)
      for (const { value, rows } of blocks) {
        const { finished, cached, live, invalid, unknown, cancelled } = value
        expect(rowsOf(finished)).toEqual(rows.rows)
        const sources = cellsIn(rows, 'source')
        const ofSource = (source: string) =>
          rows.rows.filter((_, position) => sources?.[position] === source)
        expect(rowsOf(cached)).toEqual(ofSource('cache'))
        expect(rowsOf(live)).toEqual(ofSource('live'))
        expect(rowsOf(invalid)).toEqual(ofSource('preflight'))
        expect(rowsOf(both(unknown, cancelled))).toEqual([])
        expect([...rowsOf(unknown), ...rowsOf(cancelled)].toSorted((a, b) => a - b))
          .toEqual(ofSource('none'))
        const duplicates = ofSource('duplicate')
        expect(value.duplicates.some(({ row }) => duplicates.includes(row))).toBe(false)
        for (const { name } of rows.columns) {
          expect(cellsIn(rows, name)).toHaveLength(rows.rows.length)
        }
      }
    }), { numRuns: 100 })
  })

  it('are not bought twice by a batch that is delivered twice', async () => {
    await fc.assert(fc.asyncProperty(scenarios, async (scenario) => {
      const { checksOnce, preflight, blocks } = await runScenario({ ...scenario, unanswered: [] })
      expect(checksOnce).toBe(scenario.isCancelled ? 0 : preflight.freshChecks)
      const tally = createTallyDouble()
      blocks.forEach(tally.add)
      const isPaid = !scenario.isCancelled
      expect(tally.totals.live).toBe(isPaid ? preflight.freshChecks : 0)
    }), { numRuns: 100 })
  })
})
