import { describe, expect, it } from 'vitest'
import type { ChunkPlan } from '../../../../services/jobs/results/merge.ts'
import {
  readAhead, type ChunkBatch, type ReadAheadOptions,
} from '../../../../services/jobs/results/read-chunks.ts'
import type { StoredBlock } from '../../../../services/jobs/results/result-blocks.ts'

const plans: readonly ChunkPlan[] = Array.from({ length: 120 }, (_, chunk) =>
  ({ chunk, firstRow: chunk * 2, rows: 2, entries: [] }))

/** Reads ahead over a store with chunks of this many sealed bytes, and records its reads. */
function start (steps: ReadAheadOptions, bytesAChunk: number, failsAt = Infinity) {
  const sizes: number[] = []
  const sealed = Buffer.alloc(bytesAChunk)
  const read = async (some: readonly ChunkPlan[]) => {
    sizes.push(some.length)
    if (sizes.length > failsAt) throw new Error('the store is away')
    return some.map(({ chunk }) => ({ chunk, sealed }) as StoredBlock)
  }
  const iterator = readAhead(plans, steps, read)[Symbol.asyncIterator]()
  return { sizes, iterator }
}

async function rest (iterator: AsyncIterator<ChunkBatch>) {
  const chunks: number[] = []
  for (let next = await iterator.next(); next.done !== true; next = await iterator.next()) {
    chunks.push(...next.value[0].map(({ chunk }) => chunk))
  }
  return chunks
}

describe('reading ahead', () => {
  it('reads the first chunks at once, and one batch ahead', async () => {
    const { sizes, iterator } = start({ firstChunks: 10, ahead: true }, 10_000)
    expect(sizes).toEqual([10])
    await iterator.next()
    expect(sizes).toEqual([10, 25])
    await iterator.next()
    expect(sizes).toEqual([10, 25, 25])
    await rest(iterator)
    expect(sizes).toEqual([10, 25, 25, 25, 25, 10])
  })

  it.each([
    [10_000, [10, 25, 25, 25, 25, 10]],
    [50_000, [10, 20, 20, 20, 20, 20, 10]],
    [300_000, [10, ...Array(36).fill(3), 2]],
    [2_000_000, [10, ...Array(110).fill(1)]],
  ])('takes chunks of %j bytes in steps of about a megabyte, each once', async (bytes, steps) => {
    const { sizes, iterator } = start({ firstChunks: 10, ahead: true }, bytes)
    expect(await rest(iterator)).toEqual(plans.map(({ chunk }) => chunk))
    expect(sizes).toEqual(steps)
  })

  it('reads only what is consumed without read-ahead', async () => {
    const { sizes, iterator } = start({ firstChunks: 40, ahead: false }, 10)
    await iterator.next()
    expect(sizes).toEqual([40])
    expect(await rest(iterator)).toHaveLength(80)
    expect(sizes).toEqual([40, 40, 40])
  })

  it('reports a failure only to the consumer that reaches it', async () => {
    const failures: unknown[] = []
    const note = (reason: unknown) => { failures.push(reason) }
    process.on('unhandledRejection', note)
    const { sizes, iterator } = start({ firstChunks: 10, ahead: true }, 10, 1)
    await iterator.next()
    expect(sizes).toHaveLength(2)
    await iterator.return?.()
    const never = start({ firstChunks: 10, ahead: true }, 10, 0)
    await new Promise(resolve => setImmediate(resolve))
    process.off('unhandledRejection', note)
    expect(failures).toEqual([])
    await expect(never.iterator.next()).rejects.toThrow('the store is away')
  })
})
