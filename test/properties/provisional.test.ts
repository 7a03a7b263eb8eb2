import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Completed } from '../../schemas/types.ts'
import {
  createBlock, NO_BATCH, toTallyBlock, withoutVerdict,
} from '../../services/jobs/results/block.ts'
import {
  checkCursor, countedBlocks, cursorAfter, decodeResultCursor, encodeResultCursor,
  ProvisionalResults, type ResultCursor,
} from '../../services/jobs/results/provisional.ts'
import { createResults } from '../../services/jobs/results/results.ts'
import { blockDigest } from '../../services/jobs/results/result-blocks.ts'
import type { Emission } from '../../services/runtime/engine/stage.ts'
import {
  arrived, codec, createBlocksDouble, endedJob, keys, live,
} from '../support/clickhouse/results.ts'
import { accepted, acceptRequest, upTo } from '../support/jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'

const { store, fundedTenant } = await startJobStore()
const JOB = 'job_1'

/** Rows of a job: a number is how far back the original of a duplicate is. */
const row = fc.oneof(
  { weight: 3, arbitrary: fc.constantFrom('live' as const, 'cached' as const) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 12 }) })
const randomJob = fc.record({
  chunks: fc.array(fc.array(row, { minLength: 1, maxLength: 12 }), { minLength: 1, maxLength: 3 }),
  /** The verification batch of each row. */
  batches: fc.array(fc.nat({ max: 3 }), { minLength: 36, maxLength: 36 }),
  order: fc.array(fc.nat({ max: 99 }), { minLength: 20, maxLength: 20 }),
  /** Blocks are stored so many steps after they were counted. */
  lags: fc.array(fc.nat({ max: 3 }), { minLength: 20, maxLength: 20 }),
  /** Rows that the reader takes at each step before its connection breaks; 99 for all. */
  taken: fc.array(fc.oneof(fc.nat({ max: 5 }), fc.constant(99)), { minLength: 40, maxLength: 40 }),
  /** From this block on the job gets none, and is failed. */
  failsAt: fc.option(fc.nat({ max: 12 }), { nil: undefined }),
})
type RandomJob = typeof randomJob extends fc.Arbitrary<infer J> ? J : never

/** The original of each row, by index in the job; itself if it is none. */
function originalsOf (rows: readonly (string | number)[]): readonly number[] {
  const originals: number[] = []
  for (const [index, kind] of rows.entries()) {
    const before = typeof kind === 'number' ? originals[index - kind] : undefined
    originals.push(before ?? index)
  }
  return originals
}

/** The blocks of a job in the order of their count. */
async function blocksOf (tenant: string, given: RandomJob) {
  const { chunks, batches, order } = given
  const rows = chunks.flat()
  const originals = originalsOf(rows)
  const copiesOf = (index: number) => originals.filter(of => of === index).length - 1
  const emissions: Emission<'rows.completed'>[] = []
  for (const [chunk, own] of chunks.entries()) {
    const firstRow = chunks.slice(0, chunk).flat().length
    const coordinates = {
      tenant,
      job: JOB,
      service: 'phone-validation',
      chunk,
      chunks: chunks.length,
      firstRow,
      rows: own.length,
      totalRows: rows.length,
    } as const
    const make = (batch: number, wanted: (index: number) => boolean) => {
      const isLookup = batch === NO_BATCH.lookup
      const inputs = upTo(own.length).map(index => `input ${firstRow + index}`)
      const block = createBlock({ coordinates, batch, ...isLookup && { inputs } })
      for (const index of upTo(own.length).filter(at => wanted(firstRow + at))) {
        const original = originals[firstRow + index]!
        if (original !== firstRow + index) {
          block.add(index, { source: 'duplicate', duplicateOf: original + 1 })
          continue
        }
        const outcome = live(`batch ${batch} row ${firstRow + index}`, copiesOf(original))
        block.add(index, isLookup ? { ...outcome, source: 'cache' } : outcome)
      }
      const emission = block.emission('small')
      if (emission.rows.rows.length > 0 || isLookup) emissions.push(emission)
    }
    const isEarly = (index: number) => originals[index] !== index || rows[index] === 'cached'
    make(NO_BATCH.lookup, isEarly)
    for (const batch of upTo(4)) make(batch, at => !isEarly(at) && batches[at] === batch)
  }
  const values = await Promise.all(emissions.map(async emission => (await arrived(emission)).value))
  return values.map((value, index) => ({ value, rank: order[index % 20]! }))
    .sort((a, b) => a.rank - b.rank).map(({ value }) => value)
}

async function startJob (given: RandomJob) {
  const tenant = await fundedTenant(1_000_000_000)
  const rows = given.chunks.flat()
  const originals = originalsOf(rows)
  const duplicateRows = originals.filter((of, index) => of !== index).length
  await accepted(store, tenant, acceptRequest(JOB, {
    freshChecks: rows.length - duplicateRows, duplicateRows, chunks: given.chunks.length,
  }))
  return { tenant, blocks: await blocksOf(tenant, given) }
}

const START = cursorAfter([], 0)

/** Chunks that are lost and batches that overlap are the subject of the simulation. */
it('the provisional rows of a job ' +
  'come once each, whatever the order of blocks, lags and broken connections', async () => {
  let reads = 0
  let early = 0
  await fc.assert(fc.asyncProperty(randomJob, async given => {
    const { tenant, blocks: counted } = await startJob(given)
    const blocks = createBlocksDouble()
    const provisional = new ProvisionalResults({ blocks, codec, keys })
    const got: (readonly string[])[] = []
    let after = START
    const read = async (most: number) => {
      const { job, manifest } = (await store.readWithManifest(tenant, JOB))!
      const ordered = countedBlocks(manifest)
      expect(checkCursor(job, ordered, after)).toBe('fits')
      const { rows, next, isComplete } = await provisional.open({ job, blocks: ordered, after })
      if (!job.ended) expect(isComplete).toBe(false)
      let left = most
      for await (const { rows: some, window } of rows) {
        for (const cells of some) {
          if (left === 0) return false
          left -= 1
          got.push(cells)
          const cursor = encodeResultCursor({ ...window, row: Number(cells[0]) })
          after = decodeResultCursor(cursor)!
        }
      }
      after = next
      reads += 1
      if (!isComplete && got.length > 0) early += 1
      return isComplete
    }
    const waiting: { value: Completed, at: number }[] = []
    const storeUntil = async (step: number) => {
      const due = waiting.filter(({ at }) => at <= step)
      await blocks.insert(due.map(({ value }) => value))
      waiting.splice(0, waiting.length, ...waiting.filter(({ at }) => at > step))
    }
    const { failsAt = counted.length, lags, taken } = given
    for (const [step, value] of counted.slice(0, failsAt).entries()) {
      await store.tally(tenant, toTallyBlock(value))
      waiting.push({ value, at: step + lags[step % 20]! })
      await storeUntil(step)
      await read(taken[step]!)
    }
    await storeUntil(Infinity)
    await failOpenRows(tenant, blocks)
    while (!await read(taken[(got.length + 20) % 40]! + 1));
    const { job, manifest } = (await store.readWithManifest(tenant, JOB))!
    const final: (readonly string[])[] = []
    for await (const some of createResults({ blocks, codec, keys }).rows(job, manifest)) {
      final.push(...some)
    }
    expect(final.length).toBe(given.chunks.flat().length)
    expect(got.toSorted((a, b) => Number(a[0]) - Number(b[0]))).toEqual(final)
  }), { numRuns: 300 })
  expect(reads).toBeGreaterThan(300)
  expect(early).toBeGreaterThan(100)
})

it('a block with inputs is opened once, however often the job is read', async () => {
  const chunks = [['cached', 'cached', 1], ['cached', 3, 1]] as const
  const none = { batches: [], lags: [], taken: [], failsAt: undefined }
  const { tenant, blocks: counted } = await startJob({
    ...none, chunks: chunks.map(rows => [...rows]), order: Array.from({ length: 20 }, () => 0),
  })
  const blocks = createBlocksDouble()
  let opened = 0
  const prepare: typeof codec.prepare = (...schema) => {
    opened += 1
    return codec.prepare(...schema)
  }
  const provisional = new ProvisionalResults({ blocks, codec: { prepare }, keys })
  const got: unknown[] = []
  for (const value of counted) {
    await store.tally(tenant, toTallyBlock(value))
    await blocks.insert([value])
    const { job, manifest } = (await store.readWithManifest(tenant, JOB))!
    const ordered = countedBlocks(manifest)
    const { rows } = await provisional.open({ job, blocks: ordered, after: START })
    for await (const { rows: some } of rows) got.push(...some)
  }
  expect([counted.length, opened, got.length]).toEqual([2, 2, 9])
})

/** Ends a job that got not all of its blocks, like `ledger`. */
async function failOpenRows (
  tenant: string, blocks: ReturnType<typeof createBlocksDouble>
): Promise<void> {
  const { job } = (await store.readWithManifest(tenant, JOB))!
  if (job.ended) return
  const open = (await store.unfinishedRows(tenant, JOB))!
  const { chunks, service, preflight: { totalRows } } = job
  const block = createBlock({
    coordinates: {
      tenant, job: JOB, service, chunk: chunks, chunks, firstRow: 0, rows: totalRows, totalRows,
    },
    batch: NO_BATCH.substitute,
  })
  for (const index of upTo(totalRows)) {
    if ((open[index >> 3]! & (1 << (index & 7))) === 0) continue
    block.add(index, withoutVerdict('internal', { atMs: 0 }))
  }
  const { value } = await arrived(block.emission('small'))
  await blocks.insert([value])
  const failed = await store.fail(tenant, JOB, { digest: blockDigest(value), finished: open })
  expect(failed).toMatchObject({ kind: 'counted', ended: true })
}

describe('a cursor', () => {
  it('fits blocks that were counted again only in the same order', () => {
    const digests = fc.uniqueArray(fc.stringMatching(/^[0-9a-f]{8}$/), { maxLength: 6 })
    fc.assert(fc.property(digests, fc.nat(), (names, at) => {
      const ordered = names.map(digest =>
        ({ chunk: 0, digest, won: Buffer.of(), firstRow: 0, inputs: false }))
      const cursor: ResultCursor = cursorAfter(ordered, at % (ordered.length + 1))
      const [running, ended] = [endedJob({ ended: false }), endedJob()]
      for (const order of [ordered, ordered.toReversed()]) {
        const isSame = order.slice(0, cursor.to).every((entry, index) => entry === ordered[index])
        expect(checkCursor(running, order, cursor)).toBe(isSame ? 'fits' : 'moved')
      }
      if (cursor.to === 0) return
      const fewer = ordered.slice(0, cursor.to - 1)
      expect(checkCursor(running, fewer, cursor)).toBe('behind')
      expect(checkCursor(ended, fewer.slice(0, -1), cursor)).toBe('moved')
    }))
  })

  it('is refused as a text that is none', () => {
    const texts = [
      '', '1', '1.0.0.0', '1.0.0.0.', `2.0.0.0.${'A'.repeat(16)}`, `1.-1.0.0.${'A'.repeat(16)}`,
      `1.01.1.0.${'A'.repeat(16)}`, `1.0.1e9.0.${'A'.repeat(16)}`, `1.0.0.0.${'A'.repeat(17)}`,
      `1.0.0.0.${'+'.repeat(16)}`, `1.9999999999.0.0.${'A'.repeat(16)}`,
      `1.0.0.0.${'A'.repeat(16)}\n`,
    ]
    for (const text of texts) expect(decodeResultCursor(text), text).toBeUndefined()
    expect(decodeResultCursor(encodeResultCursor(START))).toEqual(START)
  })
})
