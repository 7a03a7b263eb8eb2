import { createHash } from 'node:crypto'
import fc from 'fast-check'
import type { AcceptRequest, TallyBlock } from '../../../services/jobs/job.ts'
import type { Reason, RowStatus } from '../../../schemas/api/verdicts.ts'
import { acceptRequest, blockOf, upTo } from '../jobs.ts'

const ENDS = ['live', 'unknown', 'cancelled', 'cached', 'invalid'] as const

/** How an original ends. */
export type End = typeof ENDS[number]

export type Row = {
  readonly end: End | 'duplicate'
  readonly copies: number
  /** Only of a duplicate. */
  readonly original?: Row
}

/** Rows of a job: every duplicate follows an original, which knows how many it has. */
function rowsOf (ends: readonly (End | 'duplicate')[]): Row[] {
  const rows: { end: End | 'duplicate', copies: number, original?: Row }[] = []
  for (const end of ends) {
    const originals = rows.filter(row => row.end !== 'duplicate' && row.end !== 'invalid')
    const original = originals[rows.length % Math.max(originals.length, 1)]
    if (end !== 'duplicate') rows.push({ end, copies: 0 })
    else if (original === undefined) rows.push({ end: 'invalid', copies: 0 })
    else {
      original.copies += 1
      rows.push({ end, copies: 0, original })
    }
  }
  return rows
}

const VERDICTS = {
  live: [['valid', 'assigned_range'], ['invalid', 'unassigned_range'], ['risky', 'catch_all']],
  cached: [['valid', 'catch_all'], ['risky', 'catch_all']],
  invalid: [['invalid', 'too_short'], ['unknown', 'ambiguous_number']],
  unknown: [['unknown', 'timeout'], ['unknown', 'unclear_answer']],
  cancelled: [['unknown', 'cancelled']],
} as const

/** Status and reason of the original at this index of the job. */
export function verdictOf (end: End, row: number): readonly [RowStatus, Reason] {
  const verdicts = VERDICTS[end]
  return verdicts[row % verdicts.length]!
}

const end = fc.constantFrom<End | 'duplicate'>(...ENDS, 'duplicate')
const some = fc.array(fc.boolean(), { minLength: 20, maxLength: 20 })

/** A job of three chunks of 1 to 20 rows, and for every chunk blocks of arbitrary rows. */
export const randomJob = fc.record({
  chunks: fc.array(fc.array(end, { minLength: 1, maxLength: 20 }), { minLength: 3, maxLength: 3 }),
  parts: fc.array(fc.tuple(fc.integer({ min: 0, max: 2 }), some), { maxLength: 12 }),
  order: fc.array(fc.nat(), { minLength: 36, maxLength: 36 }),
})

type RandomJob = typeof randomJob extends fc.Arbitrary<infer J> ? J : never

/** The rows of `job_1`, and its blocks in the order of their delivery, some of them twice. */
export function layOut ({ chunks, parts, order }: RandomJob): {
  readonly rows: readonly Row[], readonly deliveries: readonly TallyBlock[]
} {
  const rows = rowsOf(chunks.flat())
  const firstRows = chunks.map((_, chunk) => chunks.slice(0, chunk).flat().length)
  const block = (chunk: number, wanted: (row: number) => boolean, label: string): TallyBlock => {
    const chunkRows = chunks[chunk]!.length
    const firstRow = firstRows[chunk]!
    const mine = upTo(chunkRows).filter(wanted)
    const of = (which: Row['end']) => mine.filter(index => rows[firstRow + index]!.end === which)
    const copies = mine.map(row => ({ row, count: rows[firstRow + row]!.copies }))
      .filter(original => original.count > 0)
    return blockOf({
      job: 'job_1',
      chunkRows,
      chunk,
      firstRow,
      label,
      copies,
      inputs: label === 'inputs',
      verdictOf: (end, row) => verdictOf(end, firstRow + row),
    }, { ...Object.fromEntries(ENDS.map(one => [one, of(one)])), duplicates: of('duplicate') })
  }
  const early = (chunk: number) => (index: number) =>
    ['cached', 'invalid', 'duplicate'].includes(rows[firstRows[chunk]! + index]!.end)
  const blocks = [
    ...upTo(3).map(chunk => block(chunk, early(chunk), 'inputs')),
    ...upTo(3).map(chunk => block(chunk, index => !early(chunk)(index), 'rest')),
    ...parts.map(([chunk, some], number) => block(chunk, index => some[index]!, `batch ${number}`)),
  ]
  // Every block comes at least once, some twice, in any order.
  const deliveries = [...blocks, ...blocks]
    .map((delivered, index) => ({ delivered, rank: order[index % 36]! + index / 100 }))
    .filter(({ rank }, index) => index < blocks.length || Math.floor(rank) % 2 === 0)
    .sort((a, b) => a.rank % 97 - b.rank % 97).map(({ delivered }) => delivered)
  return { rows, deliveries }
}

/** The counts of a job with no open rows. */
export function countsOf (rows: readonly Row[]) {
  const of = (...ends: readonly Row['end'][]) => rows.filter(row => ends.includes(row.end))
  const withCopies = (some: readonly Row[]) => some.reduce((sum, row) => sum + 1 + row.copies, 0)
  return {
    finishedRows: rows.length,
    inputBlocks: 3,
    cacheHits: of('cached').length,
    freshRecords: of('live').length,
    invalidRecords: of('invalid').length,
    duplicateRecords: of('duplicate').length,
    unknownRecords: of('unknown').length,
    cancelledRecords: of('cancelled').length,
    successRecords: withCopies(of('live', 'cached')),
    failedRecords: withCopies(of('unknown', 'cancelled', 'invalid')),
  }
}

/** The request of that job, whose quote matches its rows. */
export function requestOf (rows: readonly Row[]): AcceptRequest {
  const counts = countsOf(rows)
  return acceptRequest('job_1', {
    freshChecks: counts.freshRecords + counts.unknownRecords + counts.cancelledRecords,
    cacheHits: counts.cacheHits,
    duplicateRows: counts.duplicateRecords,
    invalidRows: counts.invalidRecords,
    chunks: 3,
  })
}

/** The block as it is made when its own bytes are lost: from its headers alone. */
export function deadOf (block: TallyBlock, number: number): TallyBlock {
  const none = Buffer.alloc(block.finished.length)
  const digest = createHash('sha256').update(`dead ${number}`).digest('hex')
  return {
    ...block,
    digest,
    replacesLost: true,
    unknown: block.finished,
    cached: none,
    live: none,
    invalid: none,
    cancelled: none,
    duplicates: [],
    verdicts: [{ status: 'unknown', reason: 'internal', firstRow: 0, rows: block.finished }],
  }
}
