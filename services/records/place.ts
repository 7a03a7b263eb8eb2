import type { Finished } from '../../schemas/types.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

type PlaceName = 'tenant' | 'job' | 'chunk' | 'chunks' | 'firstRow' | 'rows' | 'totalRows'

/** Where rows stand: their job, their chunk, and the chunk's place within the job. */
export type Place = Readonly<Pick<Finished, PlaceName>> & { readonly service: ServiceSlug }

type Envelope = Omit<Place, 'service'> & { readonly service: string }

/** The place named by the readable value of any message that carries rows. */
export function placeOf (value: Envelope): Place {
  const { tenant, job, chunk, chunks, firstRow, rows, totalRows } = value
  const service = value.service as ServiceSlug
  return { tenant, job, service, chunk, chunks, firstRow, rows, totalRows }
}

/** What the Kafka headers of a message that carries rows say, which even undecodable bytes have. */
export type HeaderPlace = {
  readonly place: Place
  readonly lane: Lane
  /** Bitmap of the chunk: the rows the message is about. */
  readonly rows: Buffer
}

/**
 * Reads the headers `tenant, job, service, lane, chunk, chunks, firstRow, chunkRows, totalRows,
 * rows` (base64 bitmap). Returns undefined when any is missing or no whole number: then the message
 * was not made by this pipeline, and nobody can know its rows.
 */
export function placeOfHeaders (
  headers: Readonly<Record<string, string>>
): HeaderPlace | undefined {
  const { tenant, job, service, lane, rows } = headers
  if (!tenant || !job || !service || !lane || !rows) return undefined
  const numbers = ['chunk', 'chunks', 'firstRow', 'chunkRows', 'totalRows']
    .map((name) => Number(headers[name] ?? Number.NaN))
  if (!numbers.every((number) => Number.isSafeInteger(number) && number >= 0)) return undefined
  const [chunk = 0, chunks = 0, firstRow = 0, chunkRows = 0, totalRows = 0] = numbers
  const place = placeOf({
    tenant, job, service, chunk, chunks, firstRow, rows: chunkRows, totalRows,
  })
  return { place, lane: lane as Lane, rows: Buffer.from(rows, 'base64') }
}
