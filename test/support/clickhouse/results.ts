import { randomBytes } from 'node:crypto'
import type { Completed, CompletedRows } from '../../../schemas/types.ts'
import type { Job, ManifestEntry } from '../../../services/jobs/job.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import {
  type BlockOptions, createBlock, type DuplicateOutcome, type RowOutcome,
} from '../../../services/jobs/results/block.ts'
import {
  blockDigest, blockRow, type ResultBlocks,
} from '../../../services/jobs/results/result-blocks.ts'
import type { Emission, Incoming } from '../../../services/runtime/engine/stage.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../kafka/local-schemas.ts'
import { acceptedJob, bitmapOf, JOB, QUOTED_AT_MS, TENANT } from '../stage-messages.ts'

const dataKey = randomBytes(32)
export const codec = createCodec(localSource())
export const keys = { get: async (): Promise<Buffer | undefined> => dataKey }
export const messageCodec = createMessageCodec({ codec, keys })

/** Result blocks in memory, each copy that was inserted. */
export function createBlocksDouble (): ResultBlocks & { stored: Completed[], inserts: number[] } {
  const stored: Completed[] = []
  const inserts: number[] = []
  const of = (tenant: string, job: string) =>
    stored.filter(block => block.tenant === tenant && block.job === job)
  return {
    stored,
    inserts,
    insert: async (blocks) => {
      inserts.push(blocks.length)
      stored.push(...blocks)
    },
    insertInlineResults: async () => [],
    digests: async (tenant, job, wanted) =>
      new Set(of(tenant, job).map(blockDigest).filter(digest => wanted.includes(digest))),
    read: async ({ tenant, job, firstChunk, lastChunk, digests }) => of(tenant, job)
      .map(block => {
        const { rows_schema: rowsSchema, sealed_base64: sealed, ...stored } = blockRow(block)
        return { ...stored, rowsSchema, sealed: Buffer.from(sealed, 'base64') }
      })
      .filter(({ chunk, digest }) =>
        chunk >= firstChunk && chunk <= lastChunk && digests.includes(digest)),
  }
}

/** The block as `settle` receives it. */
export async function arrived (
  emission: Emission<'rows.completed'>, offset = 0, codec = messageCodec
): Promise<Incoming<'rows.completed'>> {
  const message = await codec.encode(emission)
  const opened = await codec.decode({
    ...message, key: Buffer.from(message.key), partition: 0, offset: BigInt(offset), timestampMs: 0,
  })
  if (opened.kind !== 'message') throw new Error(`the block did not arrive: ${opened.kind}`)
  return opened.message as Incoming<'rows.completed'>
}

export type Chunk = {
  readonly chunk: number
  readonly chunks: number
  readonly firstRow: number
  readonly rows: number
  readonly totalRows: number
}

/** A chunk of the doubles' job. */
const placeIn = (chunk: Chunk) =>
  ({ tenant: TENANT, job: JOB, service: 'phone-validation', ...chunk }) as const

/** A live verdict whose cells name who made it. */
export function live (carrier: string, copies = 0): RowOutcome {
  return {
    status: 'valid',
    reason: 'assigned_range',
    source: 'live',
    confidence: 90,
    checkedAtMs: QUOTED_AT_MS,
    expiresAtMs: QUOTED_AT_MS + 1_000,
    fields: { carrier },
    contact: {},
    copies,
  }
}

export type BlockRows = readonly (readonly [row: number, outcome: RowOutcome | DuplicateOutcome])[]

/** A block of some rows of a chunk. */
export function blockEmission (
  chunk: Chunk, rows: BlockRows,
  { batch = 0, ...more }: Partial<Omit<BlockOptions, 'coordinates'>> = {}
): Emission<'rows.completed'> {
  const block = createBlock({ coordinates: placeIn(chunk), batch, ...more })
  for (const [row, outcome] of rows) block.add(row, outcome)
  return block.emission('small')
}

/** What the tally notes of a block that won these rows of its chunk. */
export function manifestEntry (block: Completed, won: readonly number[]): ManifestEntry {
  const { chunk, firstRow, inputs, rows } = block
  return { chunk, firstRow, inputs, digest: blockDigest(block), won: bitmapOf(rows, won) }
}

/** A job that came to its end. */
export function endedJob (change: Partial<Job> = {}, totalRows = 1): Job {
  const job = acceptedJob()
  return {
    ...job,
    status: 'completed',
    announced: true,
    ended: true,
    endedAtMs: QUOTED_AT_MS + 5_000,
    preflight: { ...job.preflight, totalRows },
    ...change,
  }
}

/** A stream of text, read to its end. */
export async function textOf (pieces: AsyncIterable<string | Uint8Array>): Promise<string> {
  const read: Buffer[] = []
  for await (const piece of pieces) read.push(Buffer.from(piece as Uint8Array))
  return Buffer.concat(read).toString()
}

/** The cells of a stored column, one a row; undefined when the block has no such column. */
export function cellsIn (
  { columns }: Pick<CompletedRows, 'columns'>, name: string
): readonly string[] | undefined {
  const column = columns.find((it) => it.name === name)
  if (column === undefined || column.at.length === 0) return column?.values
  return column.at.map(index => column.values[index] ?? '')
}
