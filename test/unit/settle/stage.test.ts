import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Tallied, TallyBlock } from '../../../services/jobs/store-types.ts'
import type { Decision } from '../../../services/runtime/engine/stage.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { topicName } from '../../../services/runtime/platform/topics.ts'
import { STORE_EVERY_MS } from '../../../services/settle/buffer.ts'
import {
  arrived, blockEmission, endedJob, keys, live, manifestEntry, messageCodec, type BlockRows,
} from '../../support/clickhouse/results.ts'
import { DEAD, emitted, entryOf, rowsOf, TENANT } from '../../support/stage-doubles.ts'
import { coordinates, counted, running, stageWith, twoBlocks } from './doubles.ts'

const { signal } = new AbortController()

describe('settle', () => {
  it('counts all blocks in order, and stores them in one insert', async () => {
    const { stage, blocks, tallies, updates } = stageWith([counted(), counted()])
    const messages = await twoBlocks()
    const [decision] = await stage.decide(messages, signal) as [Decision<'settle'>]
    expect(blocks.inserts).toEqual([2])
    expect(tallies.map(({ inputs, finished }) => [inputs, rowsOf(finished)]))
      .toEqual([[true, [0]], [false, [1, 2]]])
    const duplicates = [{ row: 0, count: 1 }]
    expect(tallies[0]).toMatchObject({ job: running.id, chunk: 0, firstRow: 0, duplicates })
    expect(updates).toEqual([running, running])
    expect(decision.completes).toEqual(messages)
    expect(decision.emits).toEqual([])
  })

  it('archives a job with the blocks that end it, announces it, and closes it', async () => {
    const ended = endedJob()
    const entry = { ...entryOf(TENANT, ended), type: 'settle', seq: 9 }
    const { stage, inserts, done } = stageWith([
      { kind: 'counted', ended: true, job: ended, entry },
      { kind: 'known', ended: true, job: ended, entry: undefined },
    ])
    const decisions = await stage.decide(await twoBlocks(), signal) as [Decision<'settle'>]
    expect([inserts, done]).toEqual([[3], [`save ${ended.id}`]])
    expect(emitted(decisions, 'jobs.settled')).toHaveLength(1)
    expect(emitted(decisions, 'wallet.journal').map(({ value }) => value)).toEqual([entry])
    await decisions[0].afterProduced?.()
    expect(done.slice(1)).toEqual([`close ${ended.id} 9`])
  })

  it('archives the manifest that came with the count, without reading it', async () => {
    const ended = endedJob()
    const messages = await twoBlocks()
    const manifest = messages.map(({ value }, index) => manifestEntry(value, [index]))
    const { stage, saved, reads } = stageWith([
      { kind: 'counted', ended: true, job: ended, entry: undefined, manifest },
      { kind: 'known', ended: true, job: ended, entry: undefined },
    ])
    await stage.decide(messages, signal)
    expect([saved, reads]).toEqual([[{ job: ended, manifest }], []])
  })

  it('closes a job that was left open when one of its blocks is redelivered', async () => {
    const ended = endedJob()
    const known = { kind: 'known', ended: true, job: ended, entry: undefined } as const
    const { stage, done } = stageWith([known])
    const [message] = await twoBlocks()
    const [decision] = await stage.decide([message], signal) as [Decision<'settle'>]
    await decision.afterProduced?.()
    expect(decision.emits.map(({ topic }) => topic)).toEqual(['jobs.settled'])
    expect(done).toEqual([`save ${ended.id}`, `close ${ended.id} undefined`])
  })

  it('leaves a job open that ended earlier, until all of its blocks are stored', async () => {
    const ended = endedJob()
    const known = { kind: 'known', ended: true, job: ended, entry: undefined } as const
    const { stage, done, manifest } = stageWith([known, known])
    const [first, second] = await twoBlocks()
    manifest.push(manifestEntry(first.value, [0]), manifestEntry(second.value, [1, 2]))
    const [early] = await stage.decide([first], signal) as [Decision<'settle'>]
    await early.afterProduced?.()
    expect([early.emits, done]).toEqual([[], []])
    const [last] = await stage.decide([second], signal) as [Decision<'settle'>]
    await last.afterProduced?.()
    expect(last.emits.map(({ topic }) => topic)).toEqual(['jobs.settled'])
    expect(done).toEqual([`save ${ended.id}`, `close ${ended.id} undefined`])
  })

  it('emits nothing for a job that is closed or was never accepted', async () => {
    const { stage, blocks, done } = stageWith([{ kind: 'skip' }, { kind: 'skip' }])
    const messages = await twoBlocks()
    const [decision] = await stage.decide(messages, signal) as [Decision<'settle'>]
    await decision.afterProduced?.()
    expect([decision.completes, decision.emits, done]).toEqual([messages, [], []])
    // They were counted by a process that may have died before it stored them.
    expect(blocks.stored).toHaveLength(2)
  })

  it('counts the rows of an unreadable block as unknown and free', async () => {
    const { stage, blocks, tallies } = stageWith([counted()])
    const rows: BlockRows = [[1, live('x')], [3, live('y')]]
    const inputs = ['a', 'b', 'c', 'd']
    const { headers } = await messageCodec.encode(blockEmission(coordinates, rows, { inputs }))
    expect(await stage.resolveDead(headers, DEAD)).toEqual([])
    expect(tallies).toHaveLength(1)
    const [tally] = tallies as [TallyBlock]
    expect([tally.finished, tally.unknown, tally.live].map(rowsOf))
      .toEqual([[1, 3], [1, 3], []])
    expect(tally.inputs).toBe(true)
    expect(blocks.stored.map(({ job, rows }) => [job, rows])).toEqual([[running.id, 4]])
    expect(await keys.get()).toBeDefined()
  })

  it.each([
    ['does not replace the inputs of an unreadable block that had none', 'false', false],
    ['replaces the inputs of an unreadable block without that header', undefined, true],
  ])('%s', async (_title, inputs, expected) => {
    const { stage, tallies } = stageWith([counted()])
    const { headers } = await messageCodec.encode(blockEmission(coordinates, [[1, live('x')]]))
    expect(headers['inputs']).toBe('false')
    const { inputs: _inputs, ...without } = headers
    await stage.resolveDead(inputs === undefined ? without : headers, DEAD)
    expect(tallies.map((tally) => tally.inputs)).toEqual([expected])
  })

  it('ignores dead letters of ended jobs and dead letters without row headers', async () => {
    const ended = stageWith([], endedJob())
    const { headers } = await messageCodec.encode(blockEmission(coordinates, [[1, live('x')]]))
    expect(await ended.stage.resolveDead(headers, DEAD)).toEqual([])
    expect(await ended.stage.resolveDead({}, DEAD)).toEqual([])
    expect([ended.blocks.stored, ended.tallies]).toEqual([[], []])
  })
})

describe('settle, while small jobs end in close succession', () => {
  const PARTITION = { topic: topicName('rows.completed', { lane: 'small' }), partition: 0 }
  const jobOf = (id: string) => endedJob({ id })
  const endOf = (id: string, kind: 'counted' | 'known' = 'counted'): Tallied =>
    ({ kind, ended: true, job: jobOf(id), entry: undefined })
  /** The block of a whole job. */
  const wholeJob = async (offset: number) => await arrived(blockEmission(
    coordinates, [0, 1, 2, 3].map(row => [row, live('a')]),
    { inputs: ['a', 'b', 'c', 'd'] }), offset)
  const JOBS = ['job_a', 'job_b', 'job_c']

  async function endJobs (
    { stage }: Pick<ReturnType<typeof stageWith>, 'stage'>, jobs = JOBS
  ): Promise<readonly (readonly bigint[])[]> {
    const completed: bigint[][] = []
    for (const index of jobs.keys()) {
      const decisions = await stage.decide([await wholeJob(index)], signal)
      completed.push((decisions as Decision<'settle'>[]).flatMap(({ completes }) =>
        completes.map(({ raw }) => raw.offset)))
    }
    return completed
  }

  it('stores the first at once, and those after it together', async () => {
    const test = stageWith(JOBS.map(job => endOf(job)))
    expect(await endJobs(test)).toEqual([[0n], [], []])
    expect([test.inserts, test.kept]).toEqual([[2], [true, true, true]])
    const [decision] = await test.stage.flushHeld!(PARTITION) as [Decision<'settle'>]
    expect(test.inserts).toEqual([2, 4])
    expect(decision.completes.map(({ raw }) => raw.offset)).toEqual([1n, 2n])
    expect(emitted([decision], 'jobs.settled').map(({ value }) => value.job))
      .toEqual(['job_b', 'job_c'])
    expect(test.done).toEqual(JOBS.map(job => `save ${job}`))
    await decision.afterProduced?.()
    expect(test.done.slice(3)).toEqual(['close job_b undefined', 'close job_c undefined'])
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
  })

  it('stores the next at once after a pause', async () => {
    const test = stageWith(JOBS.map(job => endOf(job)))
    await endJobs(test, JOBS.slice(0, 1))
    test.clock.advance(STORE_EVERY_MS)
    expect(await endJobs(test, JOBS.slice(1))).toEqual([[0n], []])
  })

  it('stores a block at once whose job goes on, or whose job ended earlier', async () => {
    for (const answer of [counted(), endOf('job_c', 'known')]) {
      const test = stageWith([endOf('job_a'), endOf('job_b'), answer])
      expect(await endJobs(test)).toEqual([[0n], [], [2n]])
    }
  })

  it('holds jobs until their insert succeeds', async () => {
    const test = stageWith(JOBS.map(job => endOf(job)))
    await endJobs(test)
    test.failures.push(new Error('no ClickHouse'))
    await expect(test.stage.flushHeld!(PARTITION)).rejects.toThrow('no ClickHouse')
    expect(await test.stage.flushHeld!(PARTITION)).toHaveLength(1)
  })

  it('drops held jobs when the group has a new generation', async () => {
    const test = stageWith(JOBS.map(job => endOf(job)))
    await endJobs(test)
    test.stage.forget()
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
    expect(test.inserts).toEqual([2])
  })

  it('does not hold a job that was counted in an earlier generation', async () => {
    const test = stageWith(JOBS.map(job => endOf(job)))
    await endJobs(test, JOBS.slice(0, 1))
    const deciding = test.stage.decide([await wholeJob(1)], signal)
    test.stage.forget()
    expect(await deciding).toEqual([])
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
    test.clock.advance(STORE_EVERY_MS)
    expect(await endJobs(test, JOBS.slice(1, 2))).toEqual([[0n]])
  })

  it('stores those of all partitions in one insert, and completes those of each', async () => {
    const test = stageWith(JOBS.map(job => endOf(job)))
    await endJobs(test, JOBS.slice(0, 2))
    const { raw, ...message } = await wholeJob(2)
    await test.stage.decide([{ ...message, raw: { ...raw, partition: 1 } }], signal)
    const flushed = await Promise.all([0, 1, 2].map(async partition =>
      await test.stage.flushHeld!({ ...PARTITION, partition })))
    expect(flushed.map(decisions => (decisions as readonly Decision<'settle'>[])
      .flatMap(({ completes }) => completes.map(({ raw: { offset } }) => offset))))
      .toEqual([[1n], [2n], []])
    expect(test.inserts).toEqual([2, 4])
  })

  it('does not keep the blocks of a job that are too large', async () => {
    const test = stageWith([endOf('job_a'), endOf('job_b')])
    await endJobs(test, ['job_a'])
    const totalRows = 400
    const large = await arrived(blockEmission(
      { ...coordinates, rows: totalRows, totalRows },
      Array.from({ length: totalRows }, (_, row) => [row, live('a')]),
      { inputs: Array.from({ length: totalRows }, () => randomBytes(16).toString('hex')) }), 1)
    expect(await test.stage.decide([large], signal)).toHaveLength(1)
    expect(test.kept).toEqual([true, false])
  })
})

describe('settle, with blocks that end no job', () => {
  const PARTITION = { topic: topicName('rows.completed', { lane: 'small' }), partition: 0 }
  const BATCH = 10
  const ended = endedJob()
  const offsetsOf = (decisions: readonly unknown[] | undefined) =>
    (decisions as readonly Decision<'settle'>[])
      .map(({ completes, dead = '' }) => [dead, ...completes.map(({ raw }) => raw.offset)])
  const end: Tallied = { kind: 'counted', ended: true, job: ended, entry: undefined }

  it('counts and stores them with the block that ends their job', async () => {
    const test = stageWith([end, end], ended, BATCH)
    const [first, second] = await twoBlocks()
    expect(await test.stage.decide([first], signal)).toEqual([])
    expect([test.tallies, test.inserts]).toEqual([[], []])
    const third = await arrived(blockEmission(coordinates, [[3, live('d')]]), 3)
    expect(await test.stage.decide([second], signal)).toEqual([])
    expect(offsetsOf(await test.stage.decide([third], signal) as Decision<'settle'>[]))
      .toEqual([['', 1n, 2n, 3n]])
    expect([test.tallies.length, test.inserts]).toEqual([3, [4]])
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
  })

  it('counts them alone at the second flush', async () => {
    const test = stageWith([counted(), counted()], running, BATCH)
    await test.stage.decide(await twoBlocks(), signal)
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
    expect(test.tallies).toEqual([])
    expect(offsetsOf(await test.stage.flushHeld!(PARTITION))).toEqual([['', 1n, 2n]])
    expect(test.inserts).toEqual([2])
  })

  it('stores them before their flush ends, also if another insert is running', async () => {
    const test = stageWith([counted(), counted(), end], ended, BATCH)
    const [first, second] = await twoBlocks()
    const elsewhere = { ...first, raw: { ...first.raw, partition: 1 } }
    await test.stage.decide([elsewhere], signal)
    await test.stage.decide([second], signal)
    for (const partition of [0, 1]) await test.stage.flushHeld!({ ...PARTITION, partition })
    const insert = Promise.withResolvers<void>()
    test.inserting.push(insert.promise)
    const flushedElsewhere = test.stage.flushHeld!({ ...PARTITION, partition: 1 })
    await expect.poll(() => test.inserting).toEqual([])
    const flushed = test.stage.flushHeld!(PARTITION)
    await expect.poll(() => test.tallies.length).toBe(2)
    insert.resolve()
    expect(offsetsOf(await flushed)).toEqual([['', 2n]])
    expect(offsetsOf(await flushedElsewhere)).toEqual([['', 1n]])
    expect(test.inserts).toEqual([1, 1])
  })

  it('counts them when there are enough, by number or size', async () => {
    const [first, second] = await twoBlocks()
    const byNumber = stageWith([counted(), counted()], running, 2)
    expect(await byNumber.stage.decide([first], signal)).toEqual([])
    expect(offsetsOf(await byNumber.stage.decide([second], signal) as Decision<'settle'>[]))
      .toEqual([['', 1n, 2n]])
    const value = Buffer.alloc(100_000)
    const bySize = stageWith([counted()], running, BATCH)
    const large = { ...first, raw: { ...first.raw, value } }
    expect(offsetsOf(await bySize.stage.decide([large], signal) as Decision<'settle'>[]))
      .toEqual([['', 1n]])
  })

  it('gives up those that cannot be counted, and goes on with others', async () => {
    const test = stageWith([], running, BATCH)
    const [first] = await twoBlocks()
    test.failures.push(new Error('no such chunk'))
    await test.stage.decide([first], signal)
    await test.stage.flushHeld!(PARTITION)
    expect(offsetsOf(await test.stage.flushHeld!(PARTITION)))
      .toEqual([['decision failed: Error: no such chunk', 1n]])
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
  })

  it('keeps them until the count succeeds', async () => {
    const test = stageWith([counted()], running, BATCH)
    const [first] = await twoBlocks()
    test.failures.push(new InfrastructureError('Redis is away'))
    await test.stage.decide([first], signal)
    await test.stage.flushHeld!(PARTITION)
    await expect(test.stage.flushHeld!(PARTITION)).rejects.toThrow('Redis is away')
    expect(offsetsOf(await test.stage.flushHeld!(PARTITION))).toEqual([['', 1n]])
  })

  it('drops them when they are dead letters, or the group has a new generation', async () => {
    const test = stageWith([counted()], running, BATCH)
    const [first, second] = await twoBlocks()
    await test.stage.decide([first, second], signal)
    await test.stage.flushHeld!(PARTITION)
    await test.stage.resolveDead({}, { ...DEAD, ...first.raw })
    expect(offsetsOf(await test.stage.flushHeld!(PARTITION))).toEqual([['', 2n]])
    await test.stage.decide([first], signal)
    test.stage.forget()
    await test.stage.flushHeld!(PARTITION)
    expect(await test.stage.flushHeld!(PARTITION)).toEqual([])
  })
})
