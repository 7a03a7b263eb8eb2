import { createHash } from 'node:crypto'
import { expect, it } from 'vitest'
import type { Completed } from '../../../../schemas/types.ts'
import { blockDigest, createResultBlocks } from '../../../../services/jobs/results/result-blocks.ts'
import { arrived, blockEmission, live } from '../../../support/clickhouse/results.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'

const place = { chunk: 0, chunks: 2, firstRow: 0, rows: 2, totalRows: 4 }
const { value: block } = await arrived(blockEmission(place, [[0, live('a', 1)], [1, live('b')]]))

it('the digest of a block differs with everything that is stored of it', () => {
  const changes: Partial<Completed>[] = [
    { chunk: 1 }, { batch: 1 }, { chunks: 3 }, { rowsSchema: block.rowsSchema + 1 },
    { duplicates: [{ row: 1, count: 1 }] }, { duplicates: [] }, { cached: Buffer.of(1) },
    { sealed: Buffer.from('other') },
  ]
  const digests = changes.map(change => blockDigest({ ...block, ...change }))
  expect(new Set([blockDigest(block), ...digests]).size).toBe(changes.length + 1)
  expect(blockDigest({ ...block, sealed: Buffer.from(block.sealed) })).toBe(blockDigest(block))
})

it('an insert of blocks ' +
  'has the same token when it is tried again, which follows from no stored value', async () => {
  const { clickhouse, inserted, tokens } = createClickhouseDouble()
  const blocks = createResultBlocks(clickhouse)
  for (const some of [[block], [block], [block, block]]) await blocks.insert(some)
  expect(inserted[0]?.['digest']).toBe(blockDigest(block))
  expect(tokens[1]).toBe(tokens[0])
  expect(tokens[2]).not.toBe(tokens[0])
  expect(tokens[0]).not.toBe(createHash('sha256').update(blockDigest(block)).digest('hex'))
})
