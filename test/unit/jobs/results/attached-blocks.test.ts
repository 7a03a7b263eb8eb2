import { describe, expect, it } from 'vitest'
import {
  attachBlocks, attachedBlocksOf, withAttachedBlocks,
} from '../../../../services/jobs/results/result-blocks.ts'
import { createResults, type Rows } from '../../../../services/jobs/results/results.ts'
import {
  arrived, blockEmission, codec, createBlocksDouble, endedJob, keys, live, manifestEntry,
} from '../../../support/clickhouse/results.ts'

/** A job of two rows in two blocks: its first one with the inputs. */
async function smallJob () {
  const place = { chunk: 0, chunks: 1, firstRow: 0, rows: 2, totalRows: 2 }
  const parts = [{ batch: 0, inputs: ['a', 'b'] }, { batch: 1 }]
  const blocks = await Promise.all(parts.map(async (part, row) =>
    (await arrived(blockEmission(place, [[row, live(`carrier ${row}`)]], part))).value))
  const manifest = blocks.map((block, row) => manifestEntry(block, [row]))
  return { job: endedJob({ chunks: 1 }, 2), blocks, manifest }
}

async function rowsOf (batches: AsyncIterable<Rows>) {
  const all = []
  for await (const rows of batches) all.push(...rows)
  return all
}

describe('attached blocks', () => {
  it('are read like stored ones, without the store', async () => {
    const { job, blocks, manifest } = await smallJob()
    const stored = createBlocksDouble()
    await stored.insert(blocks)
    const expected = await rowsOf(createResults({ blocks: stored, codec, keys })
      .rows(job, manifest))
    const attached = attachedBlocksOf(attachBlocks(blocks))
    const rows = await rowsOf(createResults({ blocks: createBlocksDouble(), codec, keys })
      .rows(job, manifest, { limit: 2, attached }))
    expect(rows).toEqual(expected)
    expect(rows.length).toBe(2)
  })

  it('are blocks that may end a small job, or none', async () => {
    const { blocks } = await smallJob()
    expect(attachBlocks([])).toBe('')
    expect(attachBlocks(blocks.slice(1))).toBe('')
    const large = blocks.map(block => ({ ...block, sealed: Buffer.alloc(20_000) }))
    expect(attachBlocks(large)).toBe('')
    expect(attachedBlocksOf('')).toEqual([])
  })

  it('that were changed are left out, and the store is read', async () => {
    const { job, blocks, manifest } = await smallJob()
    const changed = JSON.parse(attachBlocks(blocks))
    changed[0].batch = 7
    const attached = attachedBlocksOf(JSON.stringify(changed))
    expect(attached.length).toBe(1)
    const stored = createBlocksDouble()
    await stored.insert(blocks)
    const found = await withAttachedBlocks(stored, attached).read({
      tenant: job.tenant,
      job: job.id,
      firstChunk: 0,
      lastChunk: 0,
      digests: manifest.map(({ digest }) => digest),
    })
    expect(found.length).toBe(2)
  })

  it('count as stored, and the store is asked for others only', async () => {
    const { job, blocks, manifest } = await smallJob()
    const attached = attachedBlocksOf(attachBlocks(blocks))
    const { digests } = withAttachedBlocks(createBlocksDouble(), attached)
    const wanted = manifest.map(({ digest }) => digest)
    expect(await digests(job.tenant, job.id, [...wanted, 'other'])).toEqual(new Set(wanted))
  })

  it('that were delivered twice are not taken for others', async () => {
    const { job, blocks, manifest } = await smallJob()
    const [, second] = attachedBlocksOf(attachBlocks(blocks))
    if (second === undefined) throw new Error('the second block is not attached')
    const stored = createBlocksDouble()
    await stored.insert(blocks)
    const digests = manifest.map(({ digest }) => digest)
    const found = await withAttachedBlocks(stored, [second, second])
      .read({ tenant: job.tenant, job: job.id, firstChunk: 0, lastChunk: 0, digests })
    expect(new Set(found.map(({ digest }) => digest))).toEqual(new Set(digests))
  })
})
