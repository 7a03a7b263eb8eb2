import type { Completed } from '../../schemas/types.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

type CoordinateName = 'tenant' | 'job' | 'chunk' | 'chunks' | 'firstRow' | 'rows' | 'totalRows'

/** The job and the chunk of rows, and the position of the chunk within the job. */
export type ChunkCoordinates =
  Readonly<Pick<Completed, CoordinateName>> & { readonly service: ServiceSlug }

type Envelope = Omit<ChunkCoordinates, 'service'> & { readonly service: string }

/** The coordinates in the value of a message with rows. */
export function coordinatesOf (value: Envelope): ChunkCoordinates {
  const { tenant, job, chunk, chunks, firstRow, rows, totalRows } = value
  const service = value.service as ServiceSlug
  return { tenant, job, service, chunk, chunks, firstRow, rows, totalRows }
}

/** The Kafka headers of a message with rows, which are readable even if its value is not. */
export type HeaderCoordinates = {
  readonly coordinates: ChunkCoordinates
  readonly lane: Lane
  /** Bitmap of the chunk: the rows the message is about. */
  readonly rows: Buffer
}

/**
 * Reads the headers `tenant, job, service, lane, chunk, chunks, firstRow, chunkRows, totalRows,
 * rows` (base64 bitmap). Returns undefined when one is missing or not a whole number: this pipeline
 * did not produce such a message, so its rows are unknown.
 */
export function coordinatesOfHeaders (
  headers: Readonly<Record<string, string>>
): HeaderCoordinates | undefined {
  const { tenant, job, service, lane, rows } = headers
  if (!tenant || !job || !service || !lane || !rows) return undefined
  const numbers = ['chunk', 'chunks', 'firstRow', 'chunkRows', 'totalRows']
    .map((name) => Number(headers[name] ?? Number.NaN))
  if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return undefined
  const [chunk = 0, chunks = 0, firstRow = 0, chunkRows = 0, totalRows = 0] = numbers
  const coordinates = coordinatesOf({
    tenant, job, service, chunk, chunks, firstRow, rows: chunkRows, totalRows,
  })
  return { coordinates, lane: lane as Lane, rows: Buffer.from(rows, 'base64') }
}
