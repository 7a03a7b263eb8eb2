import { createHash, createHmac, randomBytes } from 'node:crypto'
import type { ClickHouseClient } from '@clickhouse/client'
import type { Completed } from '../../schemas/types.ts'
import { boundOf } from '../jobs/rows-seal.ts'
import { count } from '../platform/bitmap.ts'
import { insertRows } from '../platform/clickhouse.ts'

/** A stored block with everything its seal is bound to, but tenant and job. */
export type StoredBlock = {
  readonly chunk: number
  readonly digest: string
  readonly batch: number
  readonly chunks: number
  readonly rowsSchema: number
  /** Hex digest of what is counted of the block. */
  readonly bound: string
  /** Indexes, within the chunk, of originals that have duplicates. */
  readonly originals: readonly number[]
  readonly sealed: Buffer
}

/** Which blocks of which job are read, and the chunks they are of, both ends included. */
export type WantedBlocks = {
  readonly tenant: string
  readonly job: string
  readonly firstChunk: number
  readonly lastChunk: number
  readonly digests: readonly string[]
}

export type ResultBlocks = {
  /** Stores all blocks in one insert; the same insert tried again leaves what is there as it is. */
  readonly insert: (blocks: readonly Completed[]) => Promise<void>
  /** Those of the digests under which something is stored of the job. */
  readonly digests: (
    tenant: string, job: string, wanted: readonly string[]
  ) => Promise<ReadonlySet<string>>
  /** Each wanted block that is stored, once; rows that only claim its digest are left out. */
  readonly read: (wanted: WantedBlocks) => Promise<readonly StoredBlock[]>
}

/**
 * Hex SHA-256 of all that is stored of a block but tenant and job, by which manifests name it: so
 * ClickHouse can tell the row of a block from any other without the key of the job.
 */
export function blockDigest (block: Completed): string {
  return digestOfStored(block, boundOf(block).toString('hex'))
}

/** Both texts are what `toString` of ClickHouse makes of such a tuple. */
function digestOfStored (block: Completed, bound: string): string {
  const { chunk, batch, chunks, rowsSchema, duplicates, sealed } = block
  const originals = duplicates.map(({ row }) => row)
  return createHash('sha256')
    .update(`(${chunk},${batch},${chunks},${rowsSchema},'${bound}',[${originals.join()}])`)
    .update(sealed).digest('hex')
}

/** The store of sealed results. */
export function createResultBlocks (clickhouse: ClickHouseClient): ResultBlocks {
  const insert = async (blocks: readonly Completed[]) => {
    if (blocks.length === 0) return
    const values = blocks.map(rowOf)
    const token = createHmac('sha256', TOKEN_KEY)
      .update(values.map(({ digest }) => digest).join()).digest('hex')
    await insertRows(clickhouse, { table: 'result_blocks', columns: COLUMNS, values, token })
  }
  const select = async <T>(query: string, parameters: Record<string, unknown>) => {
    const answer = await clickhouse.query({
      // A job may have more digests than fit into an address.
      query, query_params: parameters, use_multipart_params: true, format: 'JSONEachRow',
    })
    return await answer.json<T>()
  }
  const digests: ResultBlocks['digests'] = async (tenant, job, wanted) => {
    const found = await select<{ digest: string }>(SELECT_DIGESTS, { tenant, job, wanted })
    return new Set(found.map(({ digest }) => digest))
  }
  const read = async (wanted: WantedBlocks) =>
    (await select<ReadBlock>(SELECT_BLOCKS, wanted))
      .map(({ base64, ...block }) => ({ ...block, sealed: Buffer.from(base64, 'base64') }))
  return { insert, digests, read }
}

/** Whoever can predict a token can make ClickHouse drop the insert. */
const TOKEN_KEY = randomBytes(32)

const COLUMNS = [
  'tenant', 'job', 'chunk', 'digest', 'batch', 'chunks', 'rows_schema', 'bound', 'originals',
  'rows', 'sealed_base64',
]

const SELECT_DIGESTS = `
  SELECT DISTINCT digest FROM result_blocks
  WHERE tenant = {tenant:String} AND job = {job:String} AND digest IN {wanted:Array(String)}`

/**
 * Whatever was inserted, no more comes than what is wanted: see `blockDigest`. Bytes are read, and
 * digests made, only of rows that claim to be wanted.
 */
const SELECT_BLOCKS = `
  SELECT chunk, digest, batch, chunks, rows_schema AS rowsSchema, bound, originals,
    base64Encode(sealed) AS base64
  FROM result_blocks
  PREWHERE tenant = {tenant:String} AND job = {job:String}
    AND chunk BETWEEN {firstChunk:UInt32} AND {lastChunk:UInt32}
    AND digest IN {digests:Array(String)}
  WHERE digest = lower(hex(SHA256(
      concat(toString((chunk, batch, chunks, rows_schema, bound, originals)), sealed))))
  LIMIT 1 BY digest`

type ReadBlock = Omit<StoredBlock, 'sealed'> & { readonly base64: string }

function rowOf (value: Completed) {
  const bound = boundOf(value).toString('hex')
  return {
    tenant: value.tenant,
    job: value.job,
    chunk: value.chunk,
    digest: digestOfStored(value, bound),
    batch: value.batch,
    chunks: value.chunks,
    rows_schema: value.rowsSchema,
    bound,
    originals: value.duplicates.map(({ row }) => row),
    rows: count(value.finished),
    sealed_base64: value.sealed.toString('base64'),
  }
}
