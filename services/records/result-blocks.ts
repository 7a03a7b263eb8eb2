import { createHash } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import type { Finished } from '../../schemas/types.ts'
import { boundOf } from '../jobs/rows-seal.ts'
import { count } from '../lib/bitmap.ts'
import { insertRows } from '../lib/clickhouse.ts'

/** A stored block with everything its seal is bound to, but tenant and job. */
export type StoredBlock = {
  readonly chunk: number
  readonly digest: string
  readonly part: number
  readonly chunks: number
  readonly rowsSchema: number
  /** Hex digest of what is counted of the block. */
  readonly bound: string
  /** Indexes, within the chunk, of originals that have duplicates. */
  readonly originals: readonly number[]
  readonly sealed: Buffer
}

/** Which chunks of which job are read, both ends included. */
export type ChunkRange = {
  readonly tenant: string
  readonly job: string
  readonly firstChunk: number
  readonly lastChunk: number
}

export type ResultBlocks = {
  /** Stores all blocks in one insert; the same blocks again leave what is there as it is. */
  readonly insert: (blocks: readonly Finished[]) => Promise<void>
  /** Digests of all blocks of a job that are stored, needed or not. */
  readonly digests: (tenant: string, job: string) => Promise<ReadonlySet<string>>
  /** One of each block of the chunks, needed or not. */
  readonly read: (range: ChunkRange) => Promise<readonly StoredBlock[]>
}

/** Hex SHA-256 of the sealed bytes, by which manifests name a block. */
export function digestOf (sealed: Buffer): string {
  return createHash('sha256').update(sealed).digest('hex')
}

/** The store of sealed results. */
export function createResultBlocks (clickhouse: ClickHouseClient): ResultBlocks {
  const insert = async (blocks: readonly Finished[]) => {
    if (blocks.length === 0) return
    const values = blocks.map(rowOf)
    const digests = values.map(({ digest }) => digest)
    const token = digestOf(Buffer.from(digests.join()))
    await insertRows(clickhouse, { table: 'result_blocks', columns: COLUMNS, values, token })
  }
  const digests = async (tenant: string, job: string) => {
    const answer = await clickhouse.query({
      query: `SELECT DISTINCT digest FROM result_blocks
        WHERE tenant = {tenant:String} AND job = {job:String}`,
      query_params: { tenant, job },
      format: 'JSONEachRow',
    })
    return new Set((await answer.json<{ digest: string }>()).map(({ digest }) => digest))
  }
  const read = async ({ tenant, job, firstChunk, lastChunk }: ChunkRange) => {
    const answer = await clickhouse.query({
      query: SELECT_RANGE,
      query_params: { tenant, job, first: firstChunk, last: lastChunk },
      format: 'JSONEachRow',
    })
    return (await answer.json<ReadBlock>())
      .map(({ sealed, ...block }) => ({ ...block, sealed: Buffer.from(sealed, 'base64') }))
  }
  return { insert, digests, read }
}

const COLUMNS = [
  'tenant', 'job', 'chunk', 'digest', 'part', 'chunks', 'rows_schema', 'bound', 'originals',
  'rows', 'succeeded', 'failed', 'cached', 'sealed_base64',
]

const SELECT_RANGE = `
  SELECT chunk, digest, part, chunks, rows_schema AS rowsSchema, bound, originals,
    base64Encode(sealed) AS sealed
  FROM result_blocks
  WHERE tenant = {tenant:String} AND job = {job:String}
    AND chunk BETWEEN {first:UInt32} AND {last:UInt32}
  LIMIT 1 BY chunk, digest`

type ReadBlock = Omit<StoredBlock, 'sealed'> & { readonly sealed: string }

function rowOf (value: Finished) {
  return {
    tenant: value.tenant,
    job: value.job,
    chunk: value.chunk,
    digest: digestOf(value.sealed),
    part: value.part,
    chunks: value.chunks,
    rows_schema: value.rowsSchema,
    bound: boundOf(value).toString('hex'),
    originals: value.copies.map(({ row }) => row),
    rows: count(value.finished),
    succeeded: count(value.succeeded),
    failed: count(value.failed),
    cached: count(value.cached),
    sealed_base64: value.sealed.toString('base64'),
  }
}
