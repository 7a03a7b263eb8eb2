import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { EventType } from '../../schemas/api/webhooks.ts'
import { createBlock } from '../../services/jobs/results/block.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { createOutbox } from '../../services/money/wallet.ts'
import { RefusedRowsError } from '../../services/runtime/platform/clickhouse.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import { FLUSH_EVERY_MS } from '../../services/settle/config.ts'
import { SettleStage } from '../../services/settle/main.ts'
import {
  arrived, codec, createBlocksDouble, live, messageCodec,
} from '../support/clickhouse/results.ts'
import { accepted, acceptRequest } from '../support/jobs.ts'
import { startJobStore } from '../support/redis/redis.ts'
import { createManualClock, DEAD, emitted } from '../support/stage-messages.ts'

const { redis, store, fundedTenant } = await startJobStore()
const outbox = createOutbox(redis)
const PARTITION = { topic: topicName('rows.completed', { lane: 'small' }), partition: 0 }
const TENANT = await fundedTenant(1e9)
let jobs = 0

/** A stage on the real store of jobs; what it stores of results stays in memory. */
function startStage ({ batch = 10, blocks = createBlocksDouble() } = {}) {
  const saved: string[] = []
  const inserts: number[] = []
  /** The next count, or the next insert, fails so. */
  const failures: { tally?: Error, insert?: Error } = {}
  const clock = createManualClock()
  const insert = { starts: () => {}, until: Promise.resolve() }
  const fail = (name: 'tally' | 'insert') => {
    const { [name]: failure } = failures
    delete failures[name]
    if (failure !== undefined) throw failure
  }
  const stage = new SettleStage({
    store: {
      ...store,
      tallyAll: async (...request) => {
        fail('tally')
        return await store.tallyAll(...request)
      },
    },
    blocks,
    archive: { save: async archived => { saved.push(...archived.map(({ job }) => job.id)) } },
    saveBlocksAndRecords: async rows => {
      insert.starts()
      await insert.until
      fail('insert')
      inserts.push(rows.length)
      await blocks.insert(rows.flatMap(row => 'block' in row ? [row.block] : []))
      saved.push(...rows.flatMap(row => 'archived' in row ? [row.archived.job.id] : []))
    },
    messageCodec,
    codec,
    clock,
    batch,
    batchBytes: 100_000,
  })
  return { stage, blocks, saved, inserts, failures, clock, insert }
}

type Block = Awaited<ReturnType<typeof arrived>>

/** An accepted job, and its blocks by their rows; the first one has the inputs. */
async function startJob (
  { rows = 4, events = [] as readonly EventType[], inputOf = (row: number) => `in ${row}` } = {}
) {
  const job = `job_${++jobs}`
  await accepted(store, TENANT, { ...acceptRequest(job, { freshChecks: rows }), events })
  let offset = 0
  const block = async (...numbers: readonly number[]): Promise<Block> => {
    const coordinates = {
      tenant: TENANT,
      job,
      service: 'phone-validation',
      chunk: 0,
      chunks: 1,
      firstRow: 0,
      rows,
      totalRows: rows,
    } as const
    const inputs = Array.from({ length: rows }, (_, row) => inputOf(row))
    const made = createBlock({ coordinates, batch: offset, ...offset === 0 && { inputs } })
    for (const row of numbers) made.add(row, live(`${row}`))
    return await arrived(made.emission('small'), ++offset)
  }
  return { job, block, read: async () => (await store.read(TENANT, job))! }
}

/** Jobs of four rows in one block each. */
const wholeJobs = (count: number) => Promise.all(Array.from({ length: count }, async () => {
  const { job, block } = await startJob()
  return { job, block: await block(0, 1, 2, 3) }
}))

const offsetsIn = (decisions: Awaited<ReturnType<SettleStage['decide']>>) => decisions.map(
  ({ completes, dead = '' }) => [dead, ...completes.map(({ raw }) => raw.offset)])
const jobsIn = (decisions: readonly object[]) =>
  emitted(decisions, 'jobs.settled').map(({ value }) => value.job)

describe('settle', () => {
  it('counts and stores blocks with the one that ends their job, and closes it', async () => {
    const { stage, inserts, saved, blocks } = startStage()
    const { job, block, read } = await startJob()
    const [first, second, last] = [await block(0), await block(1, 2), await block(3)]
    expect([await stage.decide([first]), await stage.decide([second])]).toEqual([[], []])
    expect((await read()).counts.finishedRows).toBe(0)
    const decisions = await stage.decide([last])
    expect(offsetsIn(decisions)).toEqual([['', 1n, 2n, 3n]])
    expect([inserts, saved, blocks.stored.length]).toEqual([[4], [job], 3])
    expect(jobsIn(decisions)).toEqual([job])
    const [entry] = emitted(decisions, 'wallet.journal')
    expect(entry?.value).toMatchObject({ type: 'settle', job, chargeMicros: 8_000 })
    expect(await read()).toMatchObject({ ended: true, closed: false })
    await decisions[0]?.afterProduced?.()
    expect((await read()).closed).toBe(true)
    expect(await stage.flushHeld(PARTITION)).toEqual([])
  })

  it('counts with others the block that ends a job of which it has counted some', async () => {
    const { stage } = startStage({ batch: 2 })
    const { block } = await startJob()
    expect(offsetsIn(await stage.decide([await block(0), await block(1)])))
      .toEqual([['', 1n, 2n]])
    expect(await stage.decide([await block(2)])).toEqual([])
    expect(offsetsIn(await stage.decide([await block(3)]))).toEqual([['', 3n, 4n]])
  })

  it('leaves a job open that ended earlier, until all of its blocks are stored', async () => {
    const crashed = startStage()
    const { job, block, read } = await startJob({
      inputOf: () => randomBytes(9_000).toString('hex'),
    })
    const all = [await block(0, 1, 2), await block(3)] as const
    crashed.failures.insert = new InfrastructureError('ClickHouse is down')
    await expect(crashed.stage.decide(all)).rejects.toThrow('ClickHouse is down')
    expect(await read()).toMatchObject({ ended: true, closed: false })
    const { stage, saved } = startStage({ batch: 1 })
    for (const [index, message] of all.entries()) {
      const [decision] = await stage.decide([message])
      await decision?.afterProduced?.()
      expect([saved, (await read()).closed]).toEqual(index === 0 ? [[], false] : [[job], true])
    }
  })

  it('counts the rows of an unreadable block as unknown and free, with or without inputs',
    async () => {
      const { stage, blocks } = startStage()
      const { block, read } = await startJob()
      for (const [numbers, inputBlocks] of [[[1, 3], 1], [[0], 1]] as const) {
        const { raw } = await block(...numbers)
        expect(await stage.resolveDead(raw.headers, DEAD)).toEqual([])
        expect((await read()).counts).toMatchObject({ freshRecords: 0, inputBlocks })
      }
      expect((await read()).counts).toMatchObject({ unknownRecords: 3, finishedRows: 3 })
      expect(blocks.stored.map(({ inputs }) => inputs)).toEqual([true, false])
    })

  it('ignores dead letters of ended jobs and dead letters without row headers', async () => {
    const { stage, blocks } = startStage()
    const { block } = await startJob()
    const last = await block(0, 1, 2, 3)
    await stage.decide([last])
    await stage.resolveDead(last.raw.headers, DEAD)
    await stage.resolveDead({}, DEAD)
    expect(blocks.stored).toHaveLength(1)
  })

  it('emits each tenth of the progress once, the latest of several, until it is acknowledged',
    async () => {
      const { stage } = startStage({ batch: 1 })
      const [followed, other] = [
        await startJob({ rows: 20, events: ['job.progress'] }), await startJob({ rows: 20 }),
      ]
      const tenths = async (isAcknowledged: boolean, ...messages: readonly Block[]) => {
        const decisions = await stage.decide(messages)
        if (isAcknowledged) await decisions[0]?.afterProduced?.()
        return emitted(decisions, 'jobs.events').map(({ value }) => value.tenth)
      }
      const { block } = followed
      expect(await tenths(true, await block(0))).toEqual([])
      expect(await tenths(false, await block(1, 2), await block(3, 4, 5))).toEqual([3])
      expect(await tenths(true, await block(6))).toEqual([3])
      expect(await tenths(true, await block(7), await other.block(1, 2, 3, 4))).toEqual([4])
      expect(await tenths(true, await block(...[...Array(20).keys()].slice(8)))).toEqual([])
    })
})

describe('settle, while small jobs end in close succession', () => {
  it('stores the first at once, and those after it together', async () => {
    const { stage, inserts, saved } = startStage()
    const [a, b, c] = await wholeJobs(3)
    expect(jobsIn(await stage.decide([a!.block]))).toEqual([a!.job])
    expect([await stage.decide([b!.block]), await stage.decide([c!.block])]).toEqual([[], []])
    expect(inserts).toEqual([2])
    expect((await store.readWithManifest(TENANT, b!.job))?.inlineResults).not.toBe('')
    const decisions = await stage.flushHeld(PARTITION)
    expect([inserts, saved]).toEqual([[2, 4], [a!.job, b!.job, c!.job]])
    expect(jobsIn(decisions)).toEqual([b!.job, c!.job])
    await decisions[0]?.afterProduced?.()
    expect((await store.read(TENANT, c!.job))?.closed).toBe(true)
    expect(await stage.flushHeld(PARTITION)).toEqual([])
  })

  it('stores a block at once whose job goes on, ended earlier, or has too many results',
    async () => {
      const [a, b, again] = await wholeJobs(3)
      const crashed = startStage()
      crashed.failures.insert = new InfrastructureError('down')
      await crashed.stage.decide([again!.block]).catch(() => {})
      const open = await startJob({ rows: 8 })
      const large = await startJob({
        rows: 400, inputOf: () => randomBytes(16).toString('hex'),
      })
      const all = [...Array(400).keys()]
      for (const last of [again!.block, await large.block(...all), await open.block(0)]) {
        const { stage } = startStage({ batch: last.value.job === open.job ? 1 : 10 })
        await stage.decide([a!.block])
        await stage.decide([b!.block])
        expect(await stage.decide([last])).toHaveLength(1)
      }
      expect((await store.readWithManifest(TENANT, large.job))?.inlineResults ?? '').toBe('')
    })

  it.each([
    ['sends the journal entry of a count', 0, 500, 1],
    ['counts again what has waited for its insert', 0, 501, 0],
    ['counts again what has waited for its flush, while that of another partition stored it',
      1, 501, 0],
  ])('%s', async (_title, otherFlush, afterMs, entries) => {
    const { stage, clock } = startStage()
    const [a, b, c] = await wholeJobs(3)
    await stage.decide([a!.block])
    await stage.decide([b!.block])
    await stage.decide([{ ...c!.block, raw: { ...c!.block.raw, partition: 1 } }])
    if (otherFlush === 1) await stage.flushHeld({ ...PARTITION, partition: 1 })
    clock.advance(afterMs)
    // As after a recovery: the entry is in the journal, under a number of its own.
    await outbox.remove(TENANT, await outbox.pending(TENANT))
    const decisions = await stage.flushHeld(PARTITION)
    expect(jobsIn(decisions)).toEqual([b!.job])
    expect(emitted(decisions, 'wallet.journal')).toHaveLength(entries)
  })

  it('stores what it counts again in one insert, however many jobs ended with it', async () => {
    const { stage, inserts, saved, clock } = startStage()
    const [a, b, c] = await wholeJobs(3)
    await stage.decide([a!.block])
    await stage.decide([b!.block])
    await stage.decide([c!.block])
    clock.advance(501)
    const decisions = await stage.flushHeld(PARTITION)
    expect([inserts, saved]).toEqual([[2, 4], [a!.job, b!.job, c!.job]])
    expect(emitted(decisions, 'wallet.journal').map(({ value }) => value.job))
      .toEqual([b!.job, c!.job])
    await decisions[0]?.afterProduced?.()
    expect((await store.read(TENANT, c!.job))?.closed).toBe(true)
  })

  it('stores the others while a batch of another partition cannot be counted again', async () => {
    const { stage, failures, clock } = startStage()
    const other = { ...PARTITION, partition: 1 }
    const [a, b, c] = await wholeJobs(3)
    await stage.decide([a!.block])
    await stage.decide([b!.block])
    await stage.decide([{ ...c!.block, raw: { ...c!.block.raw, partition: 1 } }])
    clock.advance(501)
    // It is that of the first batch.
    failures.tally = new InfrastructureError('the wallet is locked')
    expect(jobsIn(await stage.flushHeld(other))).toEqual([c!.job])
    failures.tally = new InfrastructureError('the wallet is locked')
    await expect(stage.flushHeld(PARTITION)).rejects.toThrow('the wallet is locked')
    expect(jobsIn(await stage.flushHeld(PARTITION))).toEqual([b!.job])
  })

  it('gives up a job that cannot be counted again, and stores the others', async () => {
    const { stage, clock } = startStage()
    const [a, b, c] = await wholeJobs(3)
    await stage.decide([a!.block])
    await stage.decide([b!.block])
    await stage.decide([{ ...c!.block, raw: { ...c!.block.raw, offset: 2n } }])
    clock.advance(501)
    const key = jobRedisKeys(TENANT, b!.job).job
    await redis.multi().rename(key, `${key}:aside`).set(key, 'no job').exec()
    expect(jobsIn(await stage.flushHeld(PARTITION))).toEqual([c!.job])
    const decisions = await stage.flushHeld(PARTITION)
    expect(offsetsIn(decisions))
      .toEqual([[expect.stringMatching(/^decision failed: .*WRONGTYPE/), 1n]])
    expect(await stage.flushHeld(PARTITION)).toEqual([])
  })

  it('gives up a job that cannot be counted, and settles those that came with it', async () => {
    const { stage } = startStage()
    const [a, b] = await wholeJobs(2)
    const good = { ...a!.block, raw: { ...a!.block.raw, offset: 2n } }
    const key = jobRedisKeys(TENANT, b!.job).job
    await redis.multi().rename(key, `${key}:aside`).set(key, 'no job').exec()
    expect(await stage.decide([b!.block, good])).toEqual([])
    expect(offsetsIn(await stage.flushHeld(PARTITION)))
      .toEqual([[expect.stringMatching(/^decision failed: .*WRONGTYPE/), 1n]])
    const decisions = await stage.flushHeld(PARTITION)
    expect([jobsIn(decisions), offsetsIn(decisions)]).toEqual([[a!.job], [['', 2n]]])
  })

  it('ends the rows of a block that cannot be counted, and of no other of its job', async () => {
    const { stage, blocks } = startStage()
    const { block, read } = await startJob()
    const [first, broken, last] = [await block(0), await block(1), await block(2, 3)]
    const chunk = { ...broken, value: { ...broken.value, chunk: 1 } }
    expect(await stage.decide([first, chunk, last])).toEqual([])
    expect(offsetsIn(await stage.flushHeld(PARTITION)))
      .toEqual([[expect.stringContaining('chunk 1 of job'), 2n]])
    expect(await read())
      .toMatchObject({ ended: true, counts: { freshRecords: 3, unknownRecords: 1 } })
    expect(offsetsIn(await stage.flushHeld(PARTITION))).toEqual([['', 1n, 3n]])
    expect(blocks.stored).toHaveLength(3)
  })

  it('gives up the block that ClickHouse refuses, and stores and closes all others', async () => {
    const { stage, failures, saved, blocks } = startStage()
    const [a, b, c] = await wholeJobs(3)
    failures.insert = new RefusedRowsError('settled', { rows: new Set([1]), of: 6 })
    const at = (block: Block, offset: bigint) => ({ ...block, raw: { ...block.raw, offset } })
    const messages = [a!, b!, c!].map(({ block }, index) => at(block, BigInt(index)))
    const decisions = await stage.decide(messages)
    expect(offsetsIn(decisions)).toEqual([['', 0n, 2n], ['result block refused by ClickHouse', 1n]])
    expect(jobsIn(decisions)).toEqual([a!.job, c!.job])
    await decisions[0]?.afterProduced?.()
    expect((await store.read(TENANT, b!.job))).toMatchObject({ ended: true, closed: false })
    // Its replay, once ClickHouse takes it.
    const replayed = await stage.decide([messages[1]!])
    expect([jobsIn(replayed), saved.at(-1)]).toEqual([[b!.job], b!.job])
    expect(blocks.stored).toHaveLength(1)
  })

  it('gives up the last block of a job whose final record ClickHouse refuses', async () => {
    const { stage, failures } = startStage()
    const [a, b] = await wholeJobs(2)
    failures.insert = new RefusedRowsError('settled', { rows: new Set([2]), of: 4 })
    const other = { ...b!.block, raw: { ...b!.block.raw, offset: 2n } }
    const decisions = await stage.decide([a!.block, other])
    expect(offsetsIn(decisions)).toEqual([['', 2n], ['final record refused by ClickHouse', 1n]])
    expect(jobsIn(decisions)).toEqual([b!.job])
  })

  it('does not hold a job that was counted in an earlier generation', async () => {
    const { stage, clock } = startStage()
    const [a, b, c] = await wholeJobs(3)
    await stage.decide([a!.block])
    const deciding = stage.decide([b!.block])
    stage.forget()
    expect(await deciding).toEqual([])
    expect(await stage.flushHeld(PARTITION)).toEqual([])
    clock.advance(FLUSH_EVERY_MS)
    expect(jobsIn(await stage.decide([c!.block]))).toEqual([c!.job])
  })
})

describe('settle, with blocks that end no job', () => {
  it('stores them before their flush ends, also if another insert is running', async () => {
    const { stage, insert, inserts } = startStage()
    const [here, there] = [await startJob(), await startJob()]
    const first = await there.block(0)
    await stage.decide([{ ...first, raw: { ...first.raw, partition: 1 } }])
    await stage.decide([await here.block(0)])
    for (const partition of [0, 1]) await stage.flushHeld({ ...PARTITION, partition })
    const [started, done] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    Object.assign(insert, { starts: started.resolve, until: done.promise })
    const elsewhere = stage.flushHeld({ ...PARTITION, partition: 1 })
    await started.promise
    const flushed = stage.flushHeld(PARTITION)
    await expect.poll(async () => (await here.read()).counts.finishedRows).toBe(1)
    done.resolve()
    expect([offsetsIn(await flushed), offsetsIn(await elsewhere)])
      .toEqual([[['', 1n]], [['', 1n]]])
    expect(inserts).toEqual([1, 1])
  })

  it('counts them when there are enough, by size', async () => {
    const { stage } = startStage()
    const { block } = await startJob()
    const first = await block(0)
    const large = { ...first, raw: { ...first.raw, value: Buffer.alloc(100_000) } }
    expect(offsetsIn(await stage.decide([large]))).toEqual([['', 1n]])
  })

  it.each([
    ['gives up those that cannot be counted', new Error('no such chunk'),
      [['decision failed: Error: no such chunk', 1n]], []],
    ['keeps them while Redis is down', new InfrastructureError('down'), undefined, [['', 1n]]],
  ])('%s', async (_title, failure, flushed, later) => {
    const { stage, failures } = startStage()
    const { block } = await startJob()
    await stage.decide([await block(0)])
    await stage.flushHeld(PARTITION)
    failures.tally = failure
    const flush = async () => offsetsIn(await stage.flushHeld(PARTITION))
    if (flushed === undefined) await expect(flush()).rejects.toThrow(failure)
    else expect(await flush()).toEqual(flushed)
    expect(await flush()).toEqual(later)
  })

  it('drops them when they are dead letters, or the group has a new generation', async () => {
    const { stage } = startStage()
    const { block } = await startJob()
    const [first, second] = [await block(0), await block(1)]
    await stage.decide([first, second])
    await stage.flushHeld(PARTITION)
    await stage.resolveDead({}, { ...DEAD, ...first.raw })
    expect(offsetsIn(await stage.flushHeld(PARTITION))).toEqual([['', 2n]])
    await stage.decide([first])
    stage.forget()
    await stage.flushHeld(PARTITION)
    expect(await stage.flushHeld(PARTITION)).toEqual([])
  })
})
