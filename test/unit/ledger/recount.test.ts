import { describe, expect, it } from 'vitest'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { recountLostJobs, type RecountDeps } from '../../../services/ledger/rebuild-jobs.ts'
import { tallyBlockOf } from '../../../services/jobs/results/block.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, live, messageCodec,
} from '../../support/clickhouse/results.ts'
import { JOB, TENANT } from '../../support/stage-doubles.ts'

const CHUNK = { chunk: 1, chunks: 2, firstRow: 4, rows: 4, totalRows: 8 }
const block = async (rows: readonly number[]) => (await arrived(
  blockEmission(CHUNK, rows.map(row => [row, live('c', row)] as const), { batch: 3 }))).value
const messageOf = async (value: object | Buffer | null, offset: number) => ({
  value: value === null || Buffer.isBuffer(value)
    ? value
    : await codec.encode('rows.completed-value', value),
  topic: 'rows.completed.small',
  partition: 2,
  offset: BigInt(offset),
  headers: { tenant: TENANT, job: JOB },
} as unknown as RawMessage)

/** Redis with one marked job, whose topic has these messages. */
function setUp (tally: (digest: string) => void = () => {}) {
  const [tallied, logged]: [unknown[], unknown[]] = [[], []]
  const blocks = createBlocksDouble()
  const messages: RawMessage[] = []
  const deps: RecountDeps = {
    redis: {
      smembers: async () => [TENANT],
      hgetall: async () => ({ [JOB]: '5' }),
      hdel: async () => 1,
      hlen: async () => 0,
      srem: async () => 1,
    } as never,
    reader: {
      read: async (topic, onMessages) => {
        if (topic === 'rows.completed.small') await onMessages(messages)
        return new Map()
      },
    },
    metrics: { count: () => {} },
    messageCodec,
    blocks,
    store: {
      tally: async (tenant, counted) => {
        tally(counted.digest)
        tallied.push([tenant, counted])
        return { kind: 'skip' }
      },
    },
    log: {
      error: (fields: object, message: string) => { logged.push([fields, message]) },
      warn: () => {},
    } as never,
  }
  const recount = async (...some: readonly Promise<RawMessage>[]) => {
    messages.push(...await Promise.all(some))
    await recountLostJobs(deps, new AbortController().signal)
  }
  return { recount, blocks, tallied, logged }
}

describe('recount', () => {
  it('stores blocks before it tallies them, with the same values as before', async () => {
    const [one, two] = [await block([0, 2]), await block([3])]
    const { recount, blocks, tallied, logged } = setUp()
    await recount(messageOf(one, 1), messageOf(null, 2), messageOf(two, 3))
    expect(blocks.inserts).toEqual([2])
    expect(blocks.stored).toEqual([one, two])
    expect(tallied).toEqual([[one.tenant, tallyBlockOf(one)], [two.tenant, tallyBlockOf(two)]])
    expect(tallyBlockOf(one)).toMatchObject({
      chunk: 1,
      firstRow: 4,
      inputs: false,
      replacesLost: false,
      duplicates: [{ row: 2, count: 2 }],
      finished: Buffer.from([5]),
    })
    expect(tallyBlockOf({ ...one, batch: -2 }).replacesLost).toBe(true)
    expect(logged).toEqual([])
  })

  it('logs blocks that cannot be decoded or tallied, and tallies the others', async () => {
    const [one, two] = [await block([0]), await block([1])]
    const broken = tallyBlockOf(one).digest
    const { recount, tallied, logged } = setUp(digest => {
      if (digest === broken) throw new Error('no such chunk')
    })
    // Bitmaps are bound to the seal: with another bitmap nothing can be decrypted.
    const changed = { ...two, live: Buffer.from([7]) }
    await recount(messageOf(Buffer.from('garbage'), 7), messageOf(one, 8), messageOf(two, 9),
      messageOf(changed, 10))
    expect(tallied).toEqual([[two.tenant, tallyBlockOf(two)]])
    const undecodable =
      'recount skipped a block that cannot be decoded; settle dead-lettered it before'
    expect(logged).toMatchObject([
      [{ topic: 'rows.completed.small', partition: 2, offset: '7' }, undecodable],
      [{ offset: '10', reason: 'seal_broken' }, undecodable],
      [{ tenant: one.tenant, job: one.job }, 'recount skipped a block that cannot be tallied; ' +
        'its rows stay open until ledger fails the job'],
    ])
  })

  it('rejects while a store is unavailable', async () => {
    const { recount } = setUp(() => { throw new InfrastructureError('no Redis') })
    await expect(recount(messageOf(await block([0]), 1))).rejects.toThrow('no Redis')
  })
})
