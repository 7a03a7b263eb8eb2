import { createHash } from 'node:crypto'
import type { Completed } from '../../schemas/types.ts'
import { detachBuffer } from '../platform/detach-buffer.ts'
import { openSealed, seal, subkey, unpack } from '../crypto/seal.ts'
import type { Binding } from '../crypto/seal.ts'

/** Topics whose messages carry sealed rows; each is a purpose with a subkey of its own. */
export type RowsTopic =
  'rows.submitted' | 'rows.normalized' | 'rows.to-verify' | 'rows.retry' | 'rows.completed'

/** What a seal of rows is bound to: opened anywhere else it is refused. */
export type RowsPlace = {
  readonly tenant: string
  readonly job: string
  readonly topic: RowsTopic
  readonly chunk: number
  /** -1 where the topic has no parts. */
  readonly part: number
  readonly chunks: number
  /** Registry id of the schema of the rows. */
  readonly rowsSchema: number
  /** `boundOf` a finished block, else empty. */
  readonly bound: Buffer
}

/** Binds the layout itself: a later layout can never be taken for this one. */
const VERSION = 1

/** Seals the Avro bytes of rows (compressed first) under the job's data key; they are used up. */
export function sealRows (dataKey: Buffer, place: RowsPlace, plain: Buffer): Buffer {
  const sealed = seal(subkey(dataKey, place.topic), blockAad(dataKey, place), plain)
  detachBuffer(plain)
  return sealed
}

/** @throws SealError when key, place or bytes differ from those sealed. */
export function checkRows (dataKey: Buffer, place: RowsPlace, sealed: Buffer): void {
  detachBuffer(openRows(dataKey, place, sealed))
}

/**
 * The Avro bytes of rows, checked but still compressed: `unpackWith` of lib/seal reads them.
 * @throws SealError when key, place or bytes differ from those sealed.
 */
export function openRows (dataKey: Buffer, place: RowsPlace, sealed: Buffer): Buffer {
  return openSealed(subkey(dataKey, place.topic), blockAad(dataKey, place), sealed)
}

/**
 * The bound data, in the order of design: version, key id, tenant, job, purpose, chunk, part,
 * chunks, schema id, digest of the bitmaps. The key id is derived from the data key: wrapping it
 * anew, under another key of the ring, changes no seal.
 */
export function blockAad (dataKey: Buffer, place: RowsPlace): Binding {
  const { tenant, job, topic, chunk, part, chunks, rowsSchema, bound } = place
  return [VERSION, keyIdOf(dataKey), tenant, job, topic, chunk, part, chunks, rowsSchema, bound]
}

/**
 * SHA-256 over all that is counted of a block, so that nobody can change what it bills without
 * breaking the seal: bitmaps, copies, whether it holds inputs, and its first row.
 */
export function boundOf (
  block: Pick<Completed,
    'finished' | 'cached' | 'live' | 'invalid' | 'unknown' | 'cancelled' | 'copies' | 'inputs' |
    'firstRow'>
): Buffer {
  const hash = createHash('sha256')
  const { finished, cached, live, invalid, unknown, cancelled } = block
  for (const bitmap of [finished, cached, live, invalid, unknown, cancelled]) {
    hash.update(`${bitmap.length}:`).update(bitmap)
  }
  const copies = block.copies.map((original) => `${original.row}x${original.copies}`).join(',')
  return hash.update(`${copies};${block.inputs};${block.firstRow}`).digest()
}

/** What a client gave along with a job and nobody but its webhook and status may see. */
export type JobHeader = {
  readonly metadata: Readonly<Record<string, string>>
  /** Empty when there is none. */
  readonly webhookUrl: string
}

/** Seals the header; empty when there is nothing in it. */
export function sealHeader (
  dataKey: Buffer, owner: { readonly tenant: string, readonly job: string }, header: JobHeader
): Buffer {
  const { metadata, webhookUrl } = header
  if (webhookUrl === '' && Object.keys(metadata).length === 0) return Buffer.alloc(0)
  const plain = Buffer.from(JSON.stringify({ metadata, webhookUrl }))
  return seal(subkey(dataKey, 'header'), headerAad(dataKey, owner), plain)
}

/**
 * The header that was sealed; of empty bytes the empty header.
 * @throws SealError when key, owner or bytes differ from those sealed.
 */
export function openHeader (
  dataKey: Buffer, owner: { readonly tenant: string, readonly job: string }, sealed: Buffer
): JobHeader {
  if (sealed.length === 0) return { metadata: {}, webhookUrl: '' }
  const packed = openSealed(subkey(dataKey, 'header'), headerAad(dataKey, owner), sealed)
  return JSON.parse(unpack(packed).toString('utf8')) as JobHeader
}

const headerAad = (
  dataKey: Buffer, { tenant, job }: { readonly tenant: string, readonly job: string }
): Binding =>
  [VERSION, keyIdOf(dataKey), tenant, job, 'header']

/** AES-GCM does not commit to its key; a value derived from the key, bound into the seal, does. */
function keyIdOf (dataKey: Buffer): Buffer {
  return subkey(dataKey, 'key-id').subarray(0, 8)
}
