import { createHash } from 'node:crypto'
import type { Completed } from '../../schemas/types.ts'
import { detachBuffer } from '../runtime/platform/detach-buffer.ts'
import { openSealed, seal, subkey, unpack } from '../runtime/crypto/seal.ts'
import type { Binding } from '../runtime/crypto/seal.ts'

/** Topics whose messages carry sealed rows; each topic has its own subkey. */
export type RowsTopic =
  'rows.submitted' | 'rows.normalized' | 'rows.to-verify' | 'rows.retry' | 'rows.completed'

/** What sealed rows are bound to: with another binding they cannot be opened. */
export type RowsBinding = {
  readonly tenant: string
  readonly job: string
  readonly topic: RowsTopic
  readonly chunk: number
  /** Verification batch; -1 in topics without batches. */
  readonly batch: number
  readonly chunks: number
  /** Registry id of the schema of the rows. */
  readonly rowsSchema: number
  /** `boundOf` a block, else empty. */
  readonly bound: Buffer
}

/** Version of the layout; it is part of the binding. */
const VERSION = 1

/** Compresses and seals the Avro bytes of rows under the job's data key; detaches `plain`. */
export function sealRows (dataKey: Buffer, binding: RowsBinding, plain: Buffer): Buffer {
  const sealed = seal(subkey(dataKey, binding.topic), blockAad(dataKey, binding), plain)
  detachBuffer(plain)
  return sealed
}

/** @throws SealError when key, binding or bytes differ from those sealed. */
export function checkRows (dataKey: Buffer, binding: RowsBinding, sealed: Buffer): void {
  detachBuffer(unsealRows(dataKey, binding, sealed))
}

/**
 * The Avro bytes of rows, checked but still compressed: `unpackWith` reads them.
 * @throws SealError when key, binding or bytes differ from those sealed.
 */
export function unsealRows (dataKey: Buffer, binding: RowsBinding, sealed: Buffer): Buffer {
  return openSealed(subkey(dataKey, binding.topic), blockAad(dataKey, binding), sealed)
}

/**
 * The additional authenticated data of sealed rows: version, key id, tenant, job, topic, chunk,
 * batch, chunks, schema id, digest of the bitmaps. The key id is derived from the data key, so
 * wrapping the data key under another key changes no seal.
 */
function blockAad (dataKey: Buffer, binding: RowsBinding): Binding {
  const { tenant, job, topic, chunk, batch, chunks, rowsSchema, bound } = binding
  return [VERSION, keyIdOf(dataKey), tenant, job, topic, chunk, batch, chunks, rowsSchema, bound]
}

/**
 * SHA-256 of everything in a block that affects charges and which rows count: bitmaps, duplicates,
 * whether it has inputs, and its first row. The seal is bound to it. It does not cover verdicts, as
 * older releases, which do not know them, open blocks of newer ones.
 */
export function boundOf (
  block: Pick<Completed,
    'finished' | 'cached' | 'live' | 'invalid' | 'unknown' | 'cancelled' | 'duplicates' | 'inputs' |
    'firstRow'>
): Buffer {
  const hash = createHash('sha256')
  const { finished, cached, live, invalid, unknown, cancelled } = block
  for (const bitmap of [finished, cached, live, invalid, unknown, cancelled]) {
    hash.update(`${bitmap.length}:`).update(bitmap)
  }
  const duplicates = block.duplicates.map(({ row, count }) => `${row}x${count}`).join(',')
  return hash.update(`${duplicates};${block.inputs};${block.firstRow}`).digest()
}

/** What a job is labelled with and asks for; visible only to its organization. */
export type JobHeader = {
  readonly metadata: Readonly<Record<string, string>>
  /** Empty without a webhook. */
  readonly webhookUrl: string
  /** Names of the customer's own columns, which the references of the rows hold; only of a file. */
  readonly columns?: readonly string[]
  /** By which the cells of that file were separated, unless it was a comma; not of a workbook. */
  readonly delimiter?: string
  /** Whether the references of the rows are ids that the caller gave them. */
  readonly ids?: true
  /** The options that the job has chosen, sorted. */
  readonly options?: readonly string[]
}

/** Seals the header under `headerKeyOf` the data key; returns no bytes for an empty one. */
export function sealHeader (
  headerKey: Buffer, owner: { readonly tenant: string, readonly job: string }, header: JobHeader
): Buffer {
  const { metadata, webhookUrl, columns, delimiter, ids, options } = header
  const isEmpty = webhookUrl === '' && Object.keys(metadata).length === 0 &&
    columns === undefined && ids === undefined && options === undefined
  if (isEmpty) return Buffer.alloc(0)
  const plain = Buffer.from(JSON.stringify({
    metadata, webhookUrl, columns, delimiter, ids, options,
  }))
  return seal(headerKey, headerAad(headerKey, owner), plain)
}

/**
 * Opens a sealed header; no bytes are an empty header.
 * @throws SealError when key, owner or bytes differ from those sealed.
 */
export function openHeader (
  headerKey: Buffer, owner: { readonly tenant: string, readonly job: string }, sealed: Buffer
): JobHeader {
  if (sealed.length === 0) return { metadata: {}, webhookUrl: '' }
  const packed = openSealed(headerKey, headerAad(headerKey, owner), sealed)
  return JSON.parse(unpack(packed).toString('utf8')) as JobHeader
}

const headerAad = (
  headerKey: Buffer, { tenant, job }: { readonly tenant: string, readonly job: string }
): Binding =>
  [VERSION, keyIdOf(headerKey), tenant, job, 'header']

/** AES-GCM does not commit to its key; a value derived from the key, bound into the seal, does. */
function keyIdOf (key: Buffer): Buffer {
  return subkey(key, 'key-id').subarray(0, 8)
}
