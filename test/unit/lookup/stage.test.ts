import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { fullBitmap } from '../../../services/runtime/platform/bitmap.ts'
import { ChunkLoader } from '../../../services/lookup/read.ts'
import { LookupStage } from '../../../services/lookup/stage.ts'
import { createCacheDouble } from '../../support/cache-double.ts'
import {
  acceptedJob, cachedRecord, chunksOf, createManualClock, createStoreDouble, createTallyDouble,
  emitted, entryOf, incoming, JOB, QUOTED_AT_MS, rowsOf, TENANT, tokenFor,
} from '../../support/stage-doubles.ts'

const PRICE_MICROS = 10
const phone = (last: number) => `+1212736${5_000 + last}`

function setUp ({ availableMicros = 1e12 } = {}) {
  const clock = createManualClock()
  const store = createStoreDouble({ clock, availableMicros })
  const cache = createCacheDouble()
  const undecidable: unknown[] = []
  const stage = new LookupStage({
    store,
    loader: new ChunkLoader(cache),
    clock,
    unitPriceMicros: () => PRICE_MICROS,
    policy: async () => ({ freshnessMs: 86_400_000, maxActiveJobs: 10 }),
    batchRows: (lane) => lane === 'small' ? 2 : 4,
    batch: 25,
    onUndecidable: (_of, error) => undecidable.push(error),
  })
  const remember = (...contacts: readonly string[]) => contacts.forEach((contact) =>
    cache.entries.set(tokenFor(contact).toString('hex'), cachedRecord()))
  return { clock, store, cache, undecidable, stage, remember }
}

const decisionsOf = async (
  stage: ReturnType<typeof setUp>['stage'], messages: Parameters<typeof stage.decide>[0]
) => await stage.decide(messages)

/** The headers of a chunk of three rows after eight others. */
const headersOf = (chunk: number, chunks: number) => ({
  tenant: TENANT,
  job: JOB,
  service: 'phone-validation',
  lane: 'small',
  chunk: String(chunk),
  chunks: String(chunks),
  firstRow: '8',
  chunkRows: '3',
  totalRows: '11',
  rows: fullBitmap(3).toString('base64'),
})

describe('the lookup stage', () => {
  it('holds chunks until the last one arrives, in any order', async () => {
    const { stage, store } = setUp()
    const [first, second, third] = chunksOf([phone(0), phone(1), phone(0)], { chunkRows: 1 })
    expect(await decisionsOf(stage, [third!, first!])).toEqual([])
    const [decision] = await decisionsOf(stage, [second!])
    expect(decision?.completes).toHaveLength(3)
    expect(emitted([decision!], 'rows.completed').map(({ value }) => value.chunk))
      .toEqual([0, 1, 2])
    expect(store.accepts[0]?.preflight).toEqual({
      totalRows: 3,
      invalidRows: 0,
      duplicateRows: 1,
      cacheHits: 0,
      freshChecks: 2,
      maxQuoteMicros: 20,
      quoteId: `quot_${JOB.slice('job_'.length)}`,
    })
  })

  it('reserves the whole quote, hits included', async () => {
    const { stage, store, remember } = setUp()
    remember(phone(0), phone(1))
    await decisionsOf(stage, chunksOf([phone(0), phone(1), '', phone(0)], { idempotencyKey: 'k' }))
    expect(store.accepts).toEqual([{
      id: JOB,
      service: 'phone-validation',
      lane: 'small',
      preflight: {
        totalRows: 4,
        invalidRows: 1,
        duplicateRows: 1,
        cacheHits: 2,
        freshChecks: 0,
        maxQuoteMicros: 20,
        quoteId: 'quot_01jaaaaaaaaaaaaaaaaaaaaaaa',
      },
      unitPriceMicros: PRICE_MICROS,
      chunks: 1,
      forceFresh: false,
      header: Buffer.from('header'),
      createdAtMs: QUOTED_AT_MS,
      idempotencyKey: 'k',
      acceptByMs: QUOTED_AT_MS + 25_000,
      maxActiveJobs: 10,
    }])
  })

  it('emits the journal entry, and announces after everything is produced', async () => {
    const { stage, store } = setUp()
    const [decision] = await decisionsOf(stage, chunksOf([phone(0)]))
    const job = store.jobs.get(JOB)!
    expect(decision?.emits.map(({ topic }) => topic))
      .toEqual(['rows.completed', 'rows.to-verify', 'wallet.journal'])
    expect(emitted([decision!], 'wallet.journal')[0]?.value).toEqual(entryOf(TENANT, job))
    expect([job.announced, store.shipped]).toEqual([false, []])
    await decision?.afterProduced?.()
    expect([store.jobs.get(JOB)?.announced, store.shipped]).toEqual([true, [7]])
  })

  it('emits nothing for a refused job, and completes its chunks', async () => {
    const { stage, store } = setUp({ availableMicros: 19 })
    const chunks = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    const [decision] = await decisionsOf(stage, chunks)
    expect(decision).toMatchObject({ completes: chunks, emits: [] })
    expect(await store.outcome(TENANT, JOB)).toMatchObject({
      refusal: { code: 'insufficient_balance', requiredMicros: 20, availableMicros: 19 },
    })
  })

  it('emits nothing for a job that is closed, refused or past acceptBy', async () => {
    const closed = setUp()
    closed.store.jobs.set(JOB, { ...acceptedJob(), closed: true })
    const late = setUp()
    late.clock.advance(25_001)
    const refused = setUp()
    await refused.store.refuse(TENANT, JOB, 'internal')
    for (const { stage } of [closed, late, refused]) {
      expect(await decisionsOf(stage, chunksOf([phone(0)]))).toMatchObject([{ emits: [] }])
    }
    expect(late.store.accepts).toEqual([])
    expect(await late.store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'expired' } })
  })

  it('decides again with the same quote after a lost reply', async () => {
    const { stage, store, remember } = setUp()
    const [first] = await decisionsOf(stage, chunksOf([phone(0), phone(1)]))
    remember(phone(1))
    stage.forget()
    const [again] = await decisionsOf(stage, chunksOf([phone(0), phone(1)]))
    expect(store.jobs.get(JOB)?.preflight.freshChecks).toBe(2)
    expect(emitted([first!], 'wallet.journal')).toEqual(emitted([again!], 'wallet.journal'))
    expect(emitted([again!], 'rows.to-verify').map(({ rows }) => rows.rows)).toEqual([[0]])
  })

  it('retries the complete job when its effects failed', async () => {
    const { stage } = setUp()
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, [first!])
    expect(await decisionsOf(stage, [second!])).toHaveLength(1)
    const [again] = await decisionsOf(stage, [second!])
    expect(again?.completes).toEqual([first, second])
    await again?.afterProduced?.()
    expect(await decisionsOf(stage, [second!])).toEqual([])
  })

  it('does not drop chunks of a new generation when late effects end', async () => {
    const { stage } = setUp()
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    const [stale] = await decisionsOf(stage, [first!, second!])
    stage.forget()
    expect(await decisionsOf(stage, [{ ...first! }])).toEqual([])
    await stale?.afterProduced?.()
    expect(await decisionsOf(stage, [second!])).toHaveLength(1)
  })

  it('completes both messages of a duplicate chunk', async () => {
    const { stage } = setUp()
    const [chunk] = chunksOf([phone(0)])
    const twin = { ...chunk!, raw: { ...chunk!.raw, offset: 9n } }
    const [decision, ...others] = await decisionsOf(stage, [chunk!, twin])
    expect(others).toEqual([])
    expect(decision?.completes).toEqual([chunk, twin])
    expect(emitted([decision!], 'rows.completed')).toHaveLength(1)
  })

  it('throws infrastructure errors and keeps held chunks', async () => {
    const { stage, store } = setUp()
    const chunks = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    store.failNext(new InfrastructureError('Redis'))
    await expect(decisionsOf(stage, chunks)).rejects.toThrow('Redis')
    expect(await decisionsOf(stage, chunks.slice(1))).toHaveLength(1)
  })
})

describe('held chunks of a job that is never complete', () => {
  const placeOf = ({ raw: { topic, partition } }: ReturnType<typeof chunksOf>[number]) =>
    ({ topic, partition })

  it('are flushed once the job is refused as expired', async () => {
    const { stage, store, clock } = setUp()
    const [chunk] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, [chunk!])
    clock.advance(25_000)
    expect(await stage.flushHeld(placeOf(chunk!))).toEqual([])
    clock.advance(1)
    expect(await stage.flushHeld({ ...placeOf(chunk!), partition: 9 })).toEqual([])
    expect(await stage.flushHeld(placeOf(chunk!))).toEqual([{ completes: [chunk], emits: [] }])
    expect(await store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'expired' } })
    expect(await stage.flushHeld(placeOf(chunk!))).toEqual([])
  })

  it('are held until an accepted job is announced', async () => {
    const { stage, store, clock } = setUp()
    store.jobs.set(JOB, acceptedJob())
    const [chunk] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, [chunk!])
    clock.advance(25_001)
    expect(await stage.flushHeld(placeOf(chunk!))).toEqual([])
    store.change(JOB, { announced: true })
    expect(await stage.flushHeld(placeOf(chunk!))).toEqual([{ completes: [chunk], emits: [] }])
  })

  it('stay held while Redis is unavailable', async () => {
    const { stage, store, clock } = setUp()
    const chunks = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, chunks.slice(0, 1))
    clock.advance(25_001)
    store.failNext(new InfrastructureError('Redis'))
    await expect(stage.flushHeld(placeOf(chunks[0]!))).rejects.toThrow('Redis')
    expect(await stage.flushHeld(placeOf(chunks[0]!))).toHaveLength(1)
  })

  it('fail as soon as the others of an accepted job are dead letters', async () => {
    const { stage, store } = setUp()
    const [first, second, third] = chunksOf([phone(0), phone(1), phone(2)], { chunkRows: 1 })
    store.jobs.set(JOB, acceptedJob())
    await decisionsOf(stage, [first!])
    expect(emitted([{ emits: await stage.resolveDead(headersOf(1, 3)) }], 'rows.completed'))
      .toHaveLength(1)
    // The third may still come.
    expect(await stage.flushHeld(placeOf(first!))).toEqual([])
    await decisionsOf(stage, [third!])
    const [decision] = await stage.flushHeld(placeOf(first!))
    expect(decision).toMatchObject({ completes: [first, third], dead: 'undecidable' })
    const blocks = emitted([decision!], 'rows.completed')
    expect(blocks.map(({ value }) => value.chunk)).toEqual([0, 2])
    expect(blocks.map(({ rows }) => rows.inputs)).toEqual([[` ${phone(0)}`], [` ${phone(2)}`]])
    await decision?.afterProduced?.()
    expect(store.jobs.get(JOB)?.announced).toBe(true)
    expect(await stage.flushHeld(placeOf(second!))).toEqual([])
  })

  it('are decided if a valid copy of the dead one arrives', async () => {
    const { stage, store } = setUp()
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    store.jobs.set(JOB, acceptedJob())
    await stage.resolveDead(headersOf(1, 2))
    const [decision] = await decisionsOf(stage, [first!, second!])
    expect(emitted([decision!], 'rows.to-verify')).toHaveLength(2)
    await decision?.afterProduced?.()
    expect(await stage.flushHeld(placeOf(first!))).toEqual([])
  })

  it('of a job with dead last chunks fail with their inputs', async () => {
    const { stage, store } = setUp()
    const chunks = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, chunks)
    expect(store.jobs.get(JOB)?.announced).toBe(false)
    expect(await stage.resolveDead(headersOf(1, 2))).toEqual([])
    const [decision] = await stage.flushHeld(placeOf(chunks[0]!))
    expect(decision?.completes).toEqual(chunks)
    expect(emitted([decision!], 'rows.completed').map(({ value }) => value.chunk)).toEqual([0, 1])
  })

  it('of an accepted job fail after 300 idle polls in a row', async () => {
    const { stage, store, clock } = setUp()
    store.jobs.set(JOB, acceptedJob())
    const [chunk] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, [chunk!])
    clock.advance(25_001)
    for (let poll = 0; poll < 300; poll++) {
      expect(await stage.flushHeld(placeOf(chunk!))).toEqual([])
    }
    store.failNext(new InfrastructureError('Redis'))
    await expect(stage.flushHeld(placeOf(chunk!))).rejects.toThrow('Redis')
    expect(await stage.flushHeld(placeOf(chunk!))).toMatchObject([{ completes: [chunk] }])
  })

  it('of an accepted job do not fail while their partition is stalled', async () => {
    const { stage, store, clock } = setUp()
    store.jobs.set(JOB, acceptedJob())
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    const [other] = chunksOf([phone(2), phone(3)], { chunkRows: 1, job: 'job_k' })
    await decisionsOf(stage, [first!])
    expect(await stage.flushHeld(placeOf(first!))).toEqual([])
    // The other job's chunk waits for infrastructure all that time, a poll right behind it.
    clock.advance(6 * 60_000)
    await decisionsOf(stage, [other!])
    expect(emitted(await stage.flushHeld(placeOf(first!)), 'rows.completed')).toEqual([])
    const [decision] = await decisionsOf(stage, [second!])
    expect(emitted([decision!], 'rows.to-verify').map(({ value }) => value.chunk)).toEqual([0, 1])
  })

  it('of a new generation are not affected by flushes of the old one', async () => {
    const { stage, clock } = setUp()
    const [chunk] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    await decisionsOf(stage, [chunk!])
    clock.advance(25_001)
    const releasing = stage.flushHeld(placeOf(chunk!))
    stage.forget()
    await decisionsOf(stage, [{ ...chunk! }])
    expect(await releasing).toEqual([])
    expect(await stage.flushHeld(placeOf(chunk!))).toHaveLength(1)
  })
})

describe('a job that cannot be decided', () => {
  const unreadable = (message: ReturnType<typeof chunksOf>[number]) =>
    incoming('rows.normalized', message.value,
      { rows: () => { throw new Error('bad rows') }, offset: Number(message.raw.offset) })

  it('is refused before acceptance, and its chunks are dead letters', async () => {
    const { stage, store, undecidable } = setUp()
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    const [decision] = await decisionsOf(stage, [first!, unreadable(second!)])
    expect(decision).toMatchObject({ emits: [], dead: 'undecidable' })
    expect(decision?.completes).toHaveLength(2)
    expect(undecidable).toEqual([new Error('bad rows')])
    expect(await store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('after acceptance ends all its rows free, with every readable input', async () => {
    const { stage, store } = setUp()
    store.jobs.set(JOB, acceptedJob())
    const [first, second] = chunksOf([phone(0), phone(1)], { chunkRows: 1 })
    const [decision] = await decisionsOf(stage, [first!, unreadable(second!)])
    const blocks = emitted([decision!], 'rows.completed')
    expect(blocks.map(({ rows }) => rows.inputs)).toEqual([[` ${phone(0)}`], ['']])
    expect(blocks.map(({ value }) => rowsOf(value.unknown))).toEqual([[0], [0]])
    expect(blocks.map(({ value }) => rowsOf(value.live))).toEqual([[], []])
    expect(decision?.dead).toBe('undecidable')
    await decision?.afterProduced?.()
    expect(store.jobs.get(JOB)?.announced).toBe(true)
  })
})

describe('a dead chunk', () => {
  const headers = headersOf(1, 2)

  it('refuses its job', async () => {
    const { stage, store } = setUp()
    expect(await stage.resolveDead(headers)).toEqual([])
    expect(await store.outcome(TENANT, JOB)).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('of an accepted job ends its rows and replaces the input block', async () => {
    const { stage, store } = setUp()
    store.jobs.set(JOB, acceptedJob())
    const [block] = emitted([{ emits: await stage.resolveDead(headers) }], 'rows.completed')
    expect(block?.value).toMatchObject({ chunk: 1, firstRow: 8, rows: 3, inputs: true })
    expect(rowsOf(block!.value.unknown)).toEqual([0, 1, 2])
    store.change(JOB, { closed: true })
    expect(await stage.resolveDead(headers)).toEqual([])
    expect(await stage.resolveDead({})).toEqual([])
  })

  it.each(['announced', 'rebuilt'])('of an %s job ends no rows of others', async (how) => {
    const { stage, store } = setUp()
    store.jobs.set(JOB, { ...acceptedJob(), [how]: true })
    expect(await stage.resolveDead(headers)).toEqual([])
  })
})

describe('a replay', () => {
  it('uses no more hits than the quote covers, and charges nothing', async () => {
    const contacts = fc.array(fc.integer({ min: -1, max: 9 }), { minLength: 1, maxLength: 30 })
    const hits = fc.array(fc.integer({ min: 0, max: 9 }))
    await fc.assert(fc.asyncProperty(contacts, hits, hits, async (numbers, before, after) => {
      const { stage, store, cache, remember } = setUp()
      const canonicals = numbers.map((it) => it < 0 ? '' : phone(it))
      const tally = createTallyDouble()
      for (const known of [before, after]) {
        cache.entries.clear()
        remember(...known.map(phone))
        const decisions = await decisionsOf(stage, chunksOf(canonicals, { chunkRows: 7 }))
        emitted(decisions, 'rows.completed').forEach(tally.add)
        stage.forget()
      }
      const { preflight } = store.jobs.get(JOB)!
      const { totals } = tally
      expect(totals.inputBlocks).toBe(Math.ceil(numbers.length / 7))
      expect(totals.failed).toBe(preflight.invalidRows)
      expect(totals.live).toBe(0)
      expect(totals.cached).toBeLessThanOrEqual(preflight.maxQuoteMicros / PRICE_MICROS)
      expect(preflight.cacheHits + preflight.freshChecks + preflight.invalidRows +
        preflight.duplicateRows).toBe(numbers.length)
    }), { numRuns: 40 })
  })
})
