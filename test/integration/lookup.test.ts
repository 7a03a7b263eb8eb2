import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { accountKey } from '../../services/accounts/records.ts'
import { redisRecordCache } from '../../services/cache/cache.ts'
import { NO_BATCH } from '../../services/jobs/results/block.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { lookupConfig } from '../../services/lookup/config.ts'
import type { LookupDeps } from '../../services/lookup/decide.ts'
import { ChunkLoader } from '../../services/lookup/read.ts'
import { connectPolicies, LookupStage, readBatchRows } from '../../services/lookup/main.ts'
import type { Emission } from '../../services/runtime/engine/stage.ts'
import { loadConfig } from '../../services/runtime/platform/config.ts'
import { FatalError, InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { fullBitmap } from '../../services/runtime/platform/bitmap.ts'
import { cellsIn } from '../support/clickhouse/results.ts'
import { jobClaim } from '../support/jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'
import { STAGE_ENVIRONMENT } from '../support/stacks/stage-environment.ts'
import {
  cachedRecord, chunksOf, createManualClock, emitted, incoming, rowsOf, tokenFor,
} from '../support/stage-messages.ts'

const { redis, store, wallet } = await startJobStore()
const cache = redisRecordCache(redis)
const phone = (last: number) => `+1212736${5_000 + last}`
type Message = ReturnType<typeof chunksOf>[number]
let jobs = 0

/** A claimed job of a tenant with this balance, and the stage that decides it. */
async function setUp (
  { micros = 1_000, acceptWithinMs = 60_000, ...change }: Partial<LookupDeps> & {
    readonly micros?: number
    readonly acceptWithinMs?: number
  } = {}
) {
  const [tenant, job] = [`org_${++jobs}.live`, `job_${jobs}`]
  await wallet.topUp(tenant, { id: 'a', amountMicros: micros, reason: '' })
  const claim = await store.claim(tenant, jobClaim(job, { acceptWithinMs }))
  if (claim.kind !== 'new') throw new Error('the job is not new')
  const clock = createManualClock(claim.nowMs)
  const undecidable: unknown[] = []
  const deps = (policy: Awaited<ReturnType<LookupDeps['policy']>>): LookupDeps => ({
    store,
    loader: new ChunkLoader(cache),
    clock,
    unitPriceMicros: () => 10,
    policy: async () => policy,
    batchRows: lane => lane === 'small' ? 2 : 200,
    batch: 25,
    lostAfterIdlePolls: 300,
    onUndecidable: (_job, error) => undecidable.push(error),
  })
  const stage = new LookupStage({
    ...deps({ freshnessMs: 86_400_000, maxActiveJobs: 10 }), ...change,
  })
  const chunks = (canonicals: readonly string[], more: Parameters<typeof chunksOf>[1] = {}) =>
    chunksOf(canonicals, {
      tenant, job, submittedAt: claim.nowMs, acceptBy: claim.acceptByMs, chunkRows: 1, ...more,
    })
  /** The job is accepted, and its reservation is still in the outbox. */
  const accept = async (canonicals: readonly string[]) => {
    const first = new LookupStage(deps({ freshnessMs: 0, maxActiveJobs: 10 }))
    const [decision] = await first.decide(chunks(canonicals))
    return decision
  }
  return {
    tenant,
    job,
    acceptedAtMs: claim.nowMs,
    clock,
    stage,
    undecidable,
    chunks,
    accept,
    remember: (...contacts: readonly string[]) => cache.store(
      { tenant, service: 'phone-validation', version: '1' },
      Buffer.concat(contacts.map(tokenFor)),
      contacts.map(() => cachedRecord({ checkedAtMs: claim.nowMs - 1_000 }))),
    outcome: () => store.outcome(tenant, job),
    read: async () => (await store.read(tenant, job)) ?? Promise.reject(new Error('no job')),
    /** The headers of a chunk of one row, of a job of three. */
    headers: (chunk: number) => ({
      tenant,
      job,
      service: 'phone-validation',
      lane: 'small',
      chunk: String(chunk),
      chunks: '3',
      firstRow: String(chunk),
      chunkRows: '1',
      totalRows: '3',
      rows: fullBitmap(1).toString('base64'),
    }),
  }
}

const [A, B, C] = [phone(0), phone(1), phone(2)]
const unreadable = (message: Message) => incoming('rows.normalized', message.value,
  { rows: () => { throw new Error('bad rows') }, offset: Number(message.raw.offset) })
const blocksIn = (decision: object | undefined) =>
  emitted(decision === undefined ? [] : [decision], 'rows.completed')

describe('lookup', () => {
  it('holds chunks until the last one arrives, and reserves the whole quote', async () => {
    const { stage, chunks, remember, read, tenant, job } = await setUp()
    await remember(B)
    const all = chunks([A, B, '', A], { idempotencyKey: '' })
    expect(await stage.decide([all[2]!, all[0]!, all[3]!])).toEqual([])
    const [decision] = await stage.decide([all[1]!])
    expect(decision?.completes).toHaveLength(4)
    expect(blocksIn(decision).map(({ value }) => value.chunk)).toEqual([0, 1, 2, 3])
    expect(await read()).toMatchObject({
      id: job,
      lane: 'small',
      preflight: {
        totalRows: 4,
        invalidRows: 1,
        duplicateRows: 1,
        cacheHits: 1,
        freshChecks: 1,
        maxQuoteMicros: 20,
        quoteId: `quot_${jobs}`,
      },
      unitPriceMicros: 10,
      chunks: 4,
      header: Buffer.from('header'),
    })
    expect(await wallet.balance(tenant)).toMatchObject({ reservedMicros: 20 })
  })

  it('has one block with all inputs and completed rows, and batches of the others', async () => {
    const { acceptedAtMs, stage, chunks, remember } = await setUp()
    const [D, E] = [phone(3), phone(4)]
    await remember(C, E)
    const [chunk] = chunks([A, '', B, A, C, D, C, E], { chunkRows: 1_000 })
    const [decision] = await stage.decide([chunk!])
    const [{ value, rows }, ...others] = blocksIn(decision) as [Emission<'rows.completed'>]
    expect(others).toEqual([])
    expect([value.batch, rows.inputs]).toEqual([NO_BATCH.lookup, chunk!.rows().inputs])
    expect([value.finished, value.cached, value.invalid].map(rowsOf))
      .toEqual([[1, 3, 4, 6, 7], [4, 7], [1]])
    expect(value.duplicates).toEqual([{ row: 4, count: 1 }])
    expect(rows.duplicateOf).toEqual([0, 1, 0, 5, 0])
    const [quotedAt, checkedAt] = [acceptedAtMs, acceptedAtMs - 1_000]
      .map(ms => new Date(ms).toISOString())
    expect(cellsIn(rows, 'checked_at')).toEqual([quotedAt, '', checkedAt, '', checkedAt])
    expect(cellsIn(rows, 'confidence')).toEqual(['100', '', '90', '', '90'])
    const batches = emitted([decision!], 'rows.to-verify')
    expect(batches.map(({ value: { batch }, rows: { rows: of, duplicates, canonicals, tokens } }) =>
      [batch, of, duplicates, canonicals, tokens])).toEqual([
      [0, [0, 2], [1, 0], [A, B], Buffer.concat([A, B].map(tokenFor))],
      [1, [5], [0], [D], tokenFor(D)],
    ])
    expect(batches[0]).toMatchObject({
      lane: 'small',
      service: 'phone-validation',
      value: {
        quotedAt: acceptedAtMs,
        freshnessMs: 86_400_000,
        tokenVersion: '1',
        attempt: 0,
        notBefore: 0,
        retryDeadline: 0,
      },
    })
  })

  it('verifies no more rows than are reserved for, and ends the others free', async () => {
    const blocked = new Set([B])
    const { stage, chunks } = await setUp({
      lists: {
        find: async (_org, contacts) =>
          contacts.map(contact => blocked.has(contact) ? 'block' : undefined),
        hasMailServers: async () => false,
      },
    })
    const decide = () => stage.decide(chunks([A, B, C]))
    await decide()
    blocked.clear()
    stage.forget()
    const decisions = await decide()
    expect(emitted(decisions, 'rows.to-verify').map(({ value }) => value.chunk)).toEqual([0, 1])
    const block = blocksIn(decisions[0]).at(-1)
    expect([rowsOf(block!.value.unknown), cellsIn(block!.rows, 'confidence')]).toEqual([[0], ['0']])
  })

  it('keeps the spelling of a duplicate e-mail address', async () => {
    const { stage, chunks } = await setUp()
    const [chunk] = chunks(['jane@x.org', 'JANE@x.org'],
      { service: 'email-validation', chunkRows: 1_000 })
    const tokens = Buffer.concat([tokenFor('jane@x.org'), tokenFor('jane@x.org')])
    const rows = { ...chunk!.rows(), tokens }
    const [decision] = await stage.decide([{ ...chunk!, rows: () => rows }])
    expect(cellsIn(blocksIn(decision)[0]!.rows, 'email')).toEqual(['JANE@x.org'])
  })

  it('announces a job after its reservation and all of its rows are produced', async () => {
    const { stage, chunks, read } = await setUp()
    const [decision] = await stage.decide(chunks([A]))
    expect(decision?.emits.map(({ topic }) => topic))
      .toEqual(['wallet.journal', 'rows.completed', 'rows.to-verify'])
    const [entry] = emitted([decision!], 'wallet.journal')
    expect(entry?.value).toMatchObject({ type: 'reserve', amountMicros: 10 })
    expect((await read()).announced).toBe(false)
    await decision?.afterProduced?.()
    expect((await read()).announced).toBe(true)
  })

  it('takes the price of the partner if there is one', async () => {
    for (const unitPriceMicros of [7, null]) {
      const { stage, chunks, read, tenant } = await setUp()
      const feed = {
        partner: 'acme', partition: 0, cursor: 'c', from: -1, to: 8, unitPriceMicros,
      }
      await stage.decide(chunks([A], { feed, header: null, tenant }))
      expect((await read()).unitPriceMicros).toBe(unitPriceMicros ?? 10)
    }
  })

  it('passes size and freshness of the policy to the batches of a lane', async () => {
    const policy = async () => ({ freshnessMs: 77, maxActiveJobs: 10 })
    const { stage, chunks } = await setUp({ policy, micros: 1e9 })
    const rows = Array.from({ length: 1_201 }, (_, row) => phone(row))
    const [decision] = await stage.decide(chunks(rows, { chunkRows: 1_000 }))
    const batches = emitted([decision!], 'rows.to-verify')
    expect(batches.map(({ lane, rows }) => [lane, rows.rows.length]))
      .toEqual([...new Array(6).fill(['bulk', 200]), ['bulk', 1]])
    expect(new Set(batches.map(({ value }) => value.freshnessMs))).toEqual(new Set([77]))
  })

  it('yields while it decides a big job', async () => {
    const { stage, chunks } = await setUp({ micros: 1e9 })
    const rows = Array.from({ length: 20_000 }, (_, row) => `+1212${7_000_000 + row}`)
    let turns = 0
    let isDecided = false
    const count = () => {
      turns++
      if (!isDecided) setImmediate(count)
    }
    setImmediate(count)
    await stage.decide(chunks(rows, { chunkRows: 1_000 }))
    isDecided = true
    expect(turns).toBeGreaterThan(5)
  })

  it('completes every message of a job that it refuses, and emits nothing', async () => {
    const { stage, chunks, outcome } = await setUp({ micros: 19 })
    const all = chunks([A, B])
    expect(await stage.decide(all)).toMatchObject([{ completes: all, emits: [] }])
    expect(await outcome()).toMatchObject({
      refusal: { code: 'insufficient_balance', requiredMicros: 20, availableMicros: 19 },
    })
  })

  it('emits nothing for a job that is refused, closed, late or of an erased organization',
    async () => {
      const refused = await setUp()
      await store.refuse(refused.tenant, refused.job, 'internal')
      const closed = await setUp()
      await closed.accept([A])
      await redis.hset(jobRedisKeys(closed.tenant, closed.job).job, { ended: '1', closed: '1' })
      const policy = async () => ({ freshnessMs: 0, maxActiveJobs: 10, isErased: true })
      const erased = await setUp({ policy })
      const late = await setUp({ acceptWithinMs: 1 })
      late.clock.advance(2)
      for (const { stage, chunks } of [refused, closed, erased, late]) {
        await expect.poll(async () => await stage.decide(chunks([A])))
          .toMatchObject([{ emits: [] }])
      }
      expect(await erased.outcome()).toMatchObject({ refusal: { code: 'internal' } })
      expect(await late.outcome()).toMatchObject({ refusal: { code: 'expired' } })
    })

  it('decides a job that was accepted before its organization was erased', async () => {
    const policy = async () => ({ freshnessMs: 0, maxActiveJobs: 10, isErased: true })
    const { stage, chunks, accept } = await setUp({ policy })
    await accept([A])
    const [decision] = await stage.decide(chunks([A]))
    expect(emitted([decision!], 'rows.to-verify')).toHaveLength(1)
  })

  it('rejects a chunk number that its job does not have, and holds nothing of it', async () => {
    const { stage, chunks } = await setUp()
    const [first, second] = chunks([A, B]) as [Message, Message]
    const numbered = (chunk: number, count = 2) =>
      ({ ...second, value: { ...second.value, chunk, chunks: count } })
    const invalid = [numbered(-1), numbered(2), numbered(0.5)]
    for (const message of invalid) await expect(stage.decide([message])).rejects.toThrow(RangeError)
    expect(await stage.decide([first])).toEqual([])
    // The first chunk says how many there are.
    for (const message of [...invalid, numbered(2, 3)]) {
      await expect(stage.decide([message])).rejects.toThrow(RangeError)
    }
    expect(await stage.decide([second])).toMatchObject([{ completes: [first, second] }])
  })

  it('returns a job again until its effects are done, those of its generation only', async () => {
    const { stage, chunks } = await setUp()
    const [first, second] = chunks([A, B]) as [Message, Message]
    await stage.decide([first])
    const [stale] = await stage.decide([second])
    const [again] = await stage.decide([second])
    expect(again?.completes).toEqual([first, second])
    stage.forget()
    expect(await stage.decide([{ ...first }])).toEqual([])
    await stale?.afterProduced?.()
    const [late] = await stage.decide([second])
    expect(late?.completes).toHaveLength(2)
    await late?.afterProduced?.()
    expect(await stage.decide([second])).toEqual([])
  })

  it('keeps held chunks when a store is down or its own process must stop', async () => {
    for (const failure of [new InfrastructureError('Redis'), new FatalError('no key')]) {
      let isDown = true
      const accept: typeof store.accept = async (...request) => {
        if (isDown) throw failure
        return await store.accept(...request)
      }
      const { stage, chunks, outcome } = await setUp({ store: { ...store, accept } })
      const all = chunks([A, B])
      await expect(stage.decide(all)).rejects.toThrow(failure)
      expect(await outcome()).toEqual({ kind: 'open' })
      isDown = false
      expect(await stage.decide(all.slice(1))).toHaveLength(1)
    }
  })
})

/** Chunks of several jobs: each at least once, some twice, all shuffled. */
const streams = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 })
  .chain(sizes => {
    const once = sizes.flatMap((size, number) => chunksOf(
      Array.from({ length: size }, () => ''), { chunkRows: 1, job: `job_s${number}` }))
    return fc.subarray(once).chain(twice => {
      const all = [...once, ...twice.map(message => ({ ...message }))]
      return fc.shuffledSubarray(all, { minLength: all.length })
    })
  })

it('lookup decides a job when its last chunk arrives, in any order, with all its messages',
  async () => {
    await fc.assert(fc.asyncProperty(streams, async stream => {
      const { stage } = await setUp()
      for (const [at, message] of stream.entries()) {
        const { job, chunks } = message.value
        const before = stream.slice(0, at + 1).filter(({ value }) => value.job === job)
        const [decision] = await stage.decide([message])
        const isLast = new Set(before.map(({ value }) => value.chunk)).size === chunks
        expect(decision?.completes).toEqual(isLast ? before : undefined)
      }
    }), { numRuns: 30 })
  })

describe('held chunks of a job that is never complete', () => {
  const placeOf = ({ raw: { topic, partition } }: Message) => ({ topic, partition })

  it('are flushed in their partition once the job is refused as expired', async () => {
    const { stage, clock, chunks, outcome } = await setUp({ acceptWithinMs: 1 })
    const [chunk] = chunks([A, B]) as [Message]
    await stage.decide([chunk])
    clock.advance(1)
    expect(await stage.flushHeld(placeOf(chunk))).toEqual([])
    clock.advance(1)
    expect(await stage.flushHeld({ ...placeOf(chunk), partition: 9 })).toEqual([])
    await expect.poll(() => stage.flushHeld(placeOf(chunk)))
      .toEqual([{ completes: [chunk], emits: [] }])
    expect(await outcome()).toMatchObject({ refusal: { code: 'expired' } })
    expect(await stage.flushHeld(placeOf(chunk))).toEqual([])
  })

  it('are given up if its outcome is unreadable, and others are flushed', async () => {
    const { tenant, job, stage, clock, chunks } = await setUp({ acceptWithinMs: 1 })
    const other = await setUp({ acceptWithinMs: 1 })
    const [broken, chunk] = [chunks([A, B])[0]!, other.chunks([A, B])[0]!]
    await stage.decide([broken, chunk])
    await redis.del(jobRedisKeys(tenant, job).job)
    await redis.set(jobRedisKeys(tenant, job).job, 'no job')
    clock.advance(1_000)
    expect(await stage.flushHeld(placeOf(chunk))).toEqual([
      { completes: [broken], emits: [], dead: expect.stringContaining('WRONGTYPE') },
      { completes: [chunk], emits: [] },
    ])
    expect(await stage.flushHeld(placeOf(chunk))).toEqual([])
  })

  it('leave their memory to others when they are flushed, and with their generation', async () => {
    const loaded: Message[] = []
    class RecordingLoader extends ChunkLoader {
      override load (message: Message) {
        loaded.push(message)
        return super.load(message)
      }
    }
    // Messages without a value: there is memory for a single one.
    const { tenant, job, stage, clock, chunks } = await setUp({
      loader: new RecordingLoader(cache, 1),
    })
    await store.refuse(tenant, job, 'internal')
    const [first, second, third] = chunks([A, B, C, A]) as [Message, Message, Message]
    await stage.decide([first, second])
    expect(loaded).toEqual([first])
    clock.advance(60_001)
    await stage.flushHeld(placeOf(first))
    await stage.decide([second])
    stage.forget()
    await stage.decide([third])
    expect(loaded).toEqual([first, second, third])
  })

  it('are held until an accepted job is announced', async () => {
    const { stage, clock, chunks, accept } = await setUp()
    const decision = await accept([A, B])
    const [chunk] = chunks([A, B]) as [Message]
    await stage.decide([chunk])
    clock.advance(60_001)
    expect(await stage.flushHeld(placeOf(chunk))).toEqual([])
    await decision?.afterProduced?.()
    expect(await stage.flushHeld(placeOf(chunk))).toEqual([{ completes: [chunk], emits: [] }])
  })

  it('fail with their inputs once all others of an accepted job are dead letters', async () => {
    const { stage, chunks, accept, headers, read } = await setUp()
    await accept([A, B, C])
    const [first, , third] = chunks([A, B, C]) as [Message, Message, Message]
    await stage.decide([first])
    expect(blocksIn({ emits: await stage.resolveDead(headers(1)) })).toHaveLength(1)
    // The third may still come.
    expect(await stage.flushHeld(placeOf(first))).toEqual([])
    await stage.decide([third])
    const [decision] = await stage.flushHeld(placeOf(first))
    expect(decision).toMatchObject({ completes: [first, third], dead: 'undecidable' })
    expect(blocksIn(decision).map(({ value, rows }) => [value.chunk, value.batch, rows.inputs]))
      .toEqual([[0, NO_BATCH.substitute, [` ${A}`]], [2, NO_BATCH.substitute, [` ${C}`]]])
    expect(emitted([decision!], 'wallet.journal')).toHaveLength(1)
    expect((await read()).announced).toBe(false)
    await decision?.afterProduced?.()
    expect((await read()).announced).toBe(true)
    expect(await stage.flushHeld(placeOf(first))).toEqual([])
  })

  it('fail with all inputs if the last ones die between decision and announcement',
    async () => {
      const { stage, chunks, headers, read } = await setUp()
      const all = chunks([A, B, C]) as [Message, Message, Message]
      expect(emitted(await stage.decide(all), 'rows.to-verify')).not.toEqual([])
      expect((await read()).announced).toBe(false)
      // Their rows end with the held chunks.
      expect([await stage.resolveDead(headers(1)), await stage.resolveDead(headers(2))])
        .toEqual([[], []])
      const [decision] = await stage.flushHeld(placeOf(all[0]))
      expect(decision).toMatchObject({ completes: all, dead: 'undecidable' })
      expect(blocksIn(decision).map(({ value, rows }) => [value.chunk, rows.inputs]))
        .toEqual([[0, [` ${A}`]], [1, [` ${B}`]], [2, [` ${C}`]]])
      await decision?.afterProduced?.()
      expect((await read()).announced).toBe(true)
    })

  it('are decided if a valid copy of the dead one arrives', async () => {
    const { stage, chunks, accept, headers } = await setUp()
    await accept([A, B, C])
    await stage.resolveDead(headers(1))
    const all = chunks([A, B, C]) as [Message]
    const [decision] = await stage.decide(all)
    expect(emitted([decision!], 'rows.to-verify')).toHaveLength(3)
    await decision?.afterProduced?.()
    expect(await stage.flushHeld(placeOf(all[0]))).toEqual([])
  })

  it('of an accepted job fail after 300 idle polls in a row of their partition', async () => {
    const { stage, clock, chunks, accept } = await setUp()
    await accept([A, B])
    const [chunk] = chunks([A, B]) as [Message]
    const [other] = chunksOf([A, B], { chunkRows: 1, job: 'job_other' }) as [Message]
    await stage.decide([chunk])
    clock.advance(60_001)
    // Polls of a busy partition are not idle, and a chunk of another job resets no count.
    for (const busy of [true, false, true, ...Array(298).fill(false)]) {
      if (busy) await stage.decide([other])
      expect(emitted(await stage.flushHeld(placeOf(chunk)), 'rows.completed')).toEqual([])
      await stage.flushHeld({ ...placeOf(chunk), partition: 9 })
    }
    expect(await stage.flushHeld(placeOf(chunk))).toMatchObject([{ completes: [chunk] }])
  })

  it('of an accepted job outlive an outage: a failed poll is not idle', async () => {
    const failure = new InfrastructureError('Redis')
    const failing = new Set<'outcome' | 'refuse'>()
    const guarded = async <T>(name: 'outcome' | 'refuse', answer: () => Promise<T>) => {
      if (failing.has(name)) throw failure
      return await answer()
    }
    const { stage, clock, chunks, accept, read } = await setUp({
      lostAfterIdlePolls: 4,
      store: {
        ...store,
        outcome: async (...of) => await guarded('outcome', () => store.outcome(...of)),
        refuse: async (...of) => await guarded('refuse', () => store.refuse(...of)),
      },
    })
    await accept([A, B])
    const [chunk] = chunks([A, B]) as [Message]
    await stage.decide([chunk])
    clock.advance(60_001)
    const poll = async () => await stage.flushHeld(placeOf(chunk))
    const failedPolls = async (name: 'outcome' | 'refuse') => {
      failing.add(name)
      for (let times = 0; times < 5; times++) await expect(poll()).rejects.toThrow(failure)
      failing.delete(name)
    }
    // The first one follows a message, so it is not idle.
    for (let idle = 0; idle < 4; idle++) {
      await failedPolls('outcome')
      expect(await poll()).toEqual([])
    }
    await failedPolls('refuse')
    expect((await read()).announced).toBe(false)
    expect(await poll()).toMatchObject([{ completes: [chunk], dead: 'undecidable' }])
  })

  it('of a new generation are not affected by flushes of the old one', async () => {
    const { stage, clock, chunks, tenant, job } = await setUp()
    await store.refuse(tenant, job, 'internal')
    const [chunk] = chunks([A, B]) as [Message]
    await stage.decide([chunk])
    clock.advance(60_001)
    const releasing = stage.flushHeld(placeOf(chunk))
    stage.forget()
    await stage.decide([{ ...chunk }])
    expect(await releasing).toEqual([])
    expect(await stage.flushHeld(placeOf(chunk))).toHaveLength(1)
  })
})

describe('a job that cannot be decided', () => {
  const valued = (message: Message, change: Partial<Message['value']>) =>
    ({ ...message, value: { ...message.value, ...change } })

  it.each<readonly [string, (first: Message, second: Message) => readonly Message[], RegExp]>([
    ['has unreadable rows', (first, second) => [first, unreadable(second)], /bad rows/],
    ['has a chunk that overlaps another',
      (first, second) => [first, valued(second, { firstRow: 0 })],
      /chunk 1 of job job_\d+ starts at row 0, expected 1/],
    ['leaves a gap', (first, second) => [first, valued(second, { firstRow: 2 })],
      /rows 1-1 of job job_\d+ are missing before chunk 1/],
    ['has fewer rows than its envelope says',
      (...all) => all.map(chunk => valued(chunk, { totalRows: 3 })), /have 2 rows, expected 3/],
    ['has more rows than its envelope says',
      (...all) => all.map(chunk => valued(chunk, { totalRows: 1 })),
      /a job of 1 rows got 2 tokens/],
    ['has a chunk of other rows than its envelope says',
      (first, second) => [first, valued(second, { rows: 2 })],
      /1 inputs, 1 canonical forms, expected 2/],
  ])('before acceptance is refused, with its chunks as dead letters: it %s', async (
    _case, change, fault
  ) => {
    const { stage, chunks, undecidable, outcome } = await setUp()
    const [first, second] = chunks([A, B]) as [Message, Message]
    const all = change(first, second)
    expect(await stage.decide(all))
      .toMatchObject([{ completes: all, emits: [], dead: 'undecidable' }])
    expect(undecidable.map(String)).toEqual([expect.stringMatching(fault)])
    expect(await outcome()).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('after acceptance ends all its rows free, with every readable input', async () => {
    const { stage, chunks, accept, read } = await setUp()
    await accept([A, B])
    const [first, second] = chunks([A, B]) as [Message, Message]
    const [decision] = await stage.decide([first, unreadable(second)])
    expect(blocksIn(decision).map(({ value, rows }) =>
      [rows.inputs, rowsOf(value.unknown), rowsOf(value.live)]))
      .toEqual([[[` ${A}`], [0], []], [[''], [0], []]])
    await decision?.afterProduced?.()
    expect((await read()).announced).toBe(true)
  })

  it('leaves the rows of a rebuilt job to batches that may be in progress', async () => {
    const { stage, chunks, accept, tenant, job } = await setUp()
    await accept([A])
    await redis.hset(jobRedisKeys(tenant, job).job, { rebuilt: '1' })
    const [decision] = await stage.decide(chunks([A]).map(unreadable))
    expect(blocksIn(decision).map(({ value }) => rowsOf(value.finished))).toEqual([[]])
  })
})

describe('a dead chunk', () => {
  it('refuses its job, and is ignored without the headers of a chunk', async () => {
    const { stage, headers, outcome } = await setUp()
    expect([await stage.resolveDead(headers(1)), await stage.resolveDead({})]).toEqual([[], []])
    expect(await outcome()).toMatchObject({ refusal: { code: 'internal' } })
  })

  it('of an accepted job ends its rows and replaces the input block, until others may have them',
    async () => {
      const { stage, accept, headers, tenant, job } = await setUp()
      await accept([A, B, C])
      const [block] = blocksIn({ emits: await stage.resolveDead(headers(1)) })
      expect(block?.value).toMatchObject({ chunk: 1, firstRow: 1, rows: 1, inputs: true })
      expect(rowsOf(block!.value.unknown)).toEqual([0])
      const record = jobRedisKeys(tenant, job).job
      for (const field of ['announced', 'rebuilt', 'closed']) {
        await redis.hset(record, { [field]: '1' })
        expect(await stage.resolveDead(headers(1))).toEqual([])
        await redis.hset(record, { [field]: '0' })
      }
    })
})

describe('the policy of an organization', () => {
  const policyWith = async (fields: Record<string, string>) => {
    const orgId = `org_p${++jobs}`
    if (Object.keys(fields).length > 0) await redis.hset(accountKey(`org:${orgId}`), fields)
    return await connectPolicies(redis, 7)(`${orgId}.live`)
  }

  it('has its limits, or those of the configuration', async () => {
    expect(await policyWith({})).toEqual({ freshnessMs: 90 * 86_400_000, maxActiveJobs: 7 })
    expect(await policyWith({ activeJobs: '30', freshnessDays: '0' }))
      .toEqual({ freshnessMs: 0, maxActiveJobs: 30 })
  })

  it('has the early events that endpoints of the mode want, and whether it is erased', async () => {
    const subscriptions = JSON.stringify(
      [{ endpoint: 'we_1', events: ['job.progress', 'job.completed'] }])
    expect(await policyWith({ liveSubscriptions: subscriptions, lowBalanceMicros: '5000' }))
      .toMatchObject({ events: ['job.progress'], lowBalanceMicros: 5_000 })
    expect(await policyWith({ testSubscriptions: subscriptions, erasedAt: '1' }))
      .toEqual({ freshnessMs: 90 * 86_400_000, maxActiveJobs: 7, isErased: true })
  })
})

it.each([
  [{}, [50, 200, 2_000]],
  [{
    VERIFY_BATCH_ROWS_SMALL: '5', VERIFY_BATCH_ROWS_QUICK: '70', QUICK_SERVICES: '["whatsapp"]',
  }, [5, 70, 200]],
])('verification batches have the size of their lane and service with %j', (settings, sizes) => {
  const batchRows = readBatchRows(loadConfig(lookupConfig, { ...STAGE_ENVIRONMENT, ...settings }))
  expect([
    batchRows('small', 'phone-validation'), batchRows('bulk', 'whatsapp'),
    batchRows('bulk', 'phone-validation'),
  ]).toEqual(sizes)
})
