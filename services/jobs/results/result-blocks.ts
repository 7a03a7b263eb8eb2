import { createHash } from 'node:crypto'
import type { Completed } from '../../../schemas/types.ts'
import { toBoundBytes } from '../message-codec.ts'
import { countBits } from '../../runtime/platform/bitmap.ts'
import { batchReads } from '../../runtime/platform/batch-writes.ts'
import { type Clickhouse, insertDivided, insertToken } from '../../runtime/platform/clickhouse.ts'

/** A stored block with everything its seal is bound to, except tenant and job. */
export type StoredBlock = {
  readonly chunk: number
  readonly digest: string
  readonly batch: number
  readonly chunks: number
  readonly rowsSchema: number
  /** Hex digest of the tallied fields of the block. */
  readonly bound: string
  /** Indexes, within the chunk, of originals that have duplicates. */
  readonly originals: readonly number[]
  readonly sealed: Buffer
}

/** The blocks of a job to read, and the range of their chunks, both ends inclusive. */
type WantedBlocks = {
  readonly tenant: string
  readonly job: string
  readonly firstChunk: number
  readonly lastChunk: number
  readonly digests: readonly string[]
}

export type ResultBlocks = ReturnType<typeof createResultBlocks>

/**
 * The hex SHA-256 of a stored block without tenant and job, by which manifests reference it.
 * ClickHouse can verify it without the key of the job.
 */
export function blockDigest (block: Completed): string {
  return toStoredBlock(block).digest
}

/** What is stored of a block, except tenant and job. */
function toStoredBlock (block: Completed): StoredBlock {
  const { chunk, batch, chunks, rowsSchema, sealed } = block
  const bound = toBoundBytes(block).toString('hex')
  const originals = block.duplicates.map(({ row }) => row)
  const stored = { chunk, batch, chunks, rowsSchema, bound, originals, sealed }
  return { ...stored, digest: digestOfStored(stored) }
}

/** The digest of what is stored; the text equals `toString` of the same tuple in ClickHouse. */
function digestOfStored (block: Omit<StoredBlock, 'digest'>): string {
  const { chunk, batch, chunks, rowsSchema, bound, originals, sealed } = block
  return createHash('sha256')
    .update(`(${chunk},${batch},${chunks},${rowsSchema},'${bound}',[${originals.join()}])`)
    .update(sealed).digest('hex')
}

/** The store of sealed results. */
export function createResultBlocks (clickhouse: Clickhouse) {
  const insertAll = async (values: readonly ReturnType<typeof blockRow>[]) => {
    if (values.length === 0) return
    const token = insertToken(values.map(({ digest }) => digest))
    await insertDivided(clickhouse, { table: 'result_blocks', values, token })
  }
  return {
    /** Stores all blocks in one insert. Idempotent. */
    insert: (blocks: readonly Completed[]): Promise<void> => insertAll(blocks.map(blockRow)),

    /** Stores the blocks of inline results, see `packInlineResults`. Returns their digests. */
    insertInlineResults: async (
      tenant: string, job: string, text: string
    ): Promise<readonly string[]> => {
      const blocks = unpackInlineResults(text)
      await insertAll(blocks.map(block => toRow({ tenant, job }, block)))
      return blocks.map(({ digest }) => digest)
    },

    /** The wanted digests that have a row. */
    digests: async (
      tenant: string, job: string, wanted: readonly string[]
    ): Promise<ReadonlySet<string>> => {
      const stored = await clickhouse.rows<{ digest: string }>(
        SELECT_DIGESTS, { tenant, job, wanted })
      return new Set(stored.map(({ digest }) => digest))
    },

    /** The stored wanted blocks, each once; skips rows whose content does not match the digest. */
    read: async (wanted: WantedBlocks): Promise<readonly StoredBlock[]> => {
      // Starting several threads takes longer than reading one chunk.
      const settings = wanted.firstChunk === wanted.lastChunk ? { max_threads: 1 } : {}
      const rows = await clickhouse.rows<ReadBlock>(SELECT_BLOCKS, wanted, settings)
      return rows.map(storedBlockIn)
    },
  }
}

/**
 * Reads the blocks of very many jobs: concurrent calls share a query, as each query has a fixed
 * cost. Blocks of several chunks are read alone, in the order of chunks.
 */
export function createSharedBlockReads (
  clickhouse: Clickhouse
): Pick<ResultBlocks, 'digests' | 'read'> {
  const alone = createResultBlocks(clickhouse)
  const findDigests = createSharedQuery<OfJob>(clickhouse, SELECT_SHARED_DIGESTS)
  const findBlocks = createSharedQuery<OfJob & ReadBlock>(clickhouse, SELECT_SHARED_BLOCKS)
  return {
    digests: async (tenant, job, wanted) => {
      const stored = await findDigests({ tenant, job, digests: wanted })
      return new Set(stored.map(({ digest }) => digest))
    },
    read: async wanted => {
      if (wanted.firstChunk !== wanted.lastChunk) return await alone.read(wanted)
      const rows = await findBlocks(wanted)
      return rows.map(({ tenant: _tenant, job: _job, ...block }) => storedBlockIn(block))
        .filter(({ chunk }) => chunk === wanted.firstChunk)
    },
  }
}

type OfJob = { readonly tenant: string, readonly job: string, readonly digest: string }
type WantedDigests = Pick<WantedBlocks, 'tenant' | 'job' | 'digests'>

const JOBS_PER_QUERY = 100

/** A query for digests of a job, which concurrent calls share. Each gets the rows of its job. */
function createSharedQuery<Row extends OfJob> (
  clickhouse: Clickhouse, query: string
): (wanted: WantedDigests) => Promise<readonly Row[]> {
  return batchReads(async (all: readonly WantedDigests[]) => {
    const parameters = {
      tenants: [...new Set(all.map(({ tenant }) => tenant))],
      jobs: [...new Set(all.map(({ job }) => job))],
      digests: [...new Set(all.flatMap(({ digests }) => digests))],
    }
    const rows = await clickhouse.rows<Row>(query, parameters)
    const byJob = Map.groupBy(rows, ({ tenant, job }) => `${tenant} ${job}`)
    return all.map(({ tenant, job, digests }) => {
      const wanted = new Set(digests)
      return (byJob.get(`${tenant} ${job}`) ?? []).filter(({ digest }) => wanted.has(digest))
    })
  }, JOBS_PER_QUERY)
}

const storedBlockIn = ({ base64, ...block }: ReadBlock): StoredBlock =>
  ({ ...block, sealed: Buffer.from(base64, 'base64') })

const SELECT_DIGESTS = `
  SELECT DISTINCT digest FROM result_blocks
  WHERE tenant = {tenant:String} AND job = {job:String} AND digest IN {wanted:Array(String)}`

const SELECT_SHARED_DIGESTS = `
  SELECT DISTINCT tenant, job, digest FROM result_blocks
  WHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
    AND digest IN {digests:Array(String)}`

const COLUMNS = `
  chunk, digest, batch, chunks, rows_schema AS rowsSchema, bound, originals,
    base64Encode(sealed) AS base64`
const MATCHES_DIGEST = `
  digest = lower(hex(SHA256(
      concat(toString((chunk, batch, chunks, rows_schema, bound, originals)), sealed))))`

const SELECT_SHARED_BLOCKS = `
  SELECT tenant, job, ${COLUMNS}
  FROM result_blocks
  PREWHERE tenant IN {tenants:Array(String)} AND job IN {jobs:Array(String)}
    AND digest IN {digests:Array(String)}
  WHERE ${MATCHES_DIGEST}
  LIMIT 1 BY tenant, job, digest`

/**
 * Returns only blocks that match their digest, see `blockDigest`. Reads bytes and computes digests
 * only for rows with a wanted digest.
 */
const SELECT_BLOCKS = `
  SELECT ${COLUMNS}
  FROM result_blocks
  PREWHERE tenant = {tenant:String} AND job = {job:String}
    AND chunk BETWEEN {firstChunk:UInt32} AND {lastChunk:UInt32}
    AND digest IN {digests:Array(String)}
  WHERE ${MATCHES_DIGEST}
  LIMIT 1 BY digest`

type ReadBlock = Omit<StoredBlock, 'sealed'> & { readonly base64: string }

/** The row of a block, without its defaults. */
export function blockRow (value: Completed) {
  return toRow(value, toInlineBlock(value))
}

function toRow (
  { tenant, job }: Pick<Completed, 'tenant' | 'job'>,
  { chunk, digest, batch, chunks, rowsSchema, bound, originals, rows, sealed }: InlineBlock
) {
  return {
    tenant,
    job,
    chunk,
    digest,
    batch,
    chunks,
    rows_schema: rowsSchema,
    bound,
    originals,
    rows,
    sealed_base64: sealed.toString('base64'),
  }
}

/** A stored block with the number of its rows. */
type InlineBlock = StoredBlock & { readonly rows: number }

const toInlineBlock = (block: Completed): InlineBlock =>
  ({ ...toStoredBlock(block), rows: countBits(block.finished) })

/** Every process that waits for any job receives them. */
const MAX_INLINE_BYTES = 32_768

/**
 * The sealed blocks of a small job as text, for the notification of its end: a request that waits
 * for the rows gets them before they are stored. '' if they are large, or too few to end the job.
 */
export function packInlineResults (blocks: readonly Completed[]): string {
  const rows = blocks.reduce((sum, { finished }) => sum + countBits(finished), 0)
  const bytes = blocks.reduce((sum, { sealed }) => sum + sealed.length, 0)
  if (bytes > MAX_INLINE_BYTES || rows < (blocks[0]?.totalRows ?? Infinity)) return ''
  return JSON.stringify(blocks.map(toInlineBlock).map(({ sealed, ...block }) =>
    ({ ...block, sealed: sealed.toString('base64') })))
}

/** The blocks of inline results; one whose content does not match its digest is left out. */
export function unpackInlineResults (text: string): readonly InlineBlock[] {
  if (text === '') return []
  return (JSON.parse(text) as (Omit<InlineBlock, 'sealed'> & { readonly sealed: string })[])
    .map(block => ({ ...block, sealed: Buffer.from(block.sealed, 'base64') }))
    .filter(block => digestOfStored(block) === block.digest)
}

/**
 * Reads the given blocks from memory if they are all that is wanted, otherwise from the store,
 * which may not have them yet.
 */
export function withInlineResults (
  blocks: Pick<ResultBlocks, 'digests' | 'read'>, inlineResults: readonly StoredBlock[]
): Pick<ResultBlocks, 'digests' | 'read'> {
  // A block that was delivered twice is there twice.
  const byDigest = new Map(inlineResults.map(block => [block.digest, block]))
  return {
    digests: async (tenant, job, wanted) => {
      const others = wanted.filter(digest => !byDigest.has(digest))
      const stored = others.length === 0 ? [] : await blocks.digests(tenant, job, others)
      return new Set([...stored, ...wanted.filter(digest => byDigest.has(digest))])
    },
    read: async wanted => {
      const inline = wanted.digests.map(digest => byDigest.get(digest))
      return inline.every(block => block !== undefined) ? inline : await blocks.read(wanted)
    },
  }
}
