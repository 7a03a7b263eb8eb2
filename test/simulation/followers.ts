import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import type { ArchivedJob } from '../../services/jobs/results/archive.ts'
import { columnsOf } from '../../services/jobs/results/columns.ts'
import {
  checkCursor, countedBlocks, cursorAfter, ProvisionalResults, type ResultCursor,
} from '../../services/jobs/results/provisional.ts'
import { LostResultsError } from '../../services/jobs/results/read-chunks.ts'
import type { Chaos } from './chaos.ts'
import type { Complain } from './losses.ts'
import type { Pipeline } from './pipeline.ts'
import type { Answered } from './requests.ts'

/** The rows that a client has of a job, by the provisional results, and where it stands. */
export type Followed = {
  readonly rows: (readonly string[])[]
  readonly cursor: ResultCursor
  /** How often its cursor was refused, so that it had to start again. */
  readonly restarts: number
}

const READ_EVERY_MS = 20
const READS = 50
/** Probability that an answer breaks off. */
const BROKEN_OFF = 0.3

/** A client that reads the rows of its job while that runs, and then stops for some time. */
export function followerOn (
  pipeline: Pipeline, chaos: Chaos
): (answered: Answered) => Promise<Followed | undefined> {
  const provisional = new ProvisionalResults({ ...pipeline, blocks: pipeline.stores.blocks })
  return async ({ outcome }) => {
    if (outcome?.kind !== 'accepted') return undefined
    const { tenant, id } = outcome.job
    let followed: Followed = { rows: [], cursor: cursorAfter([], 0), restarts: 0 }
    for (let read = 0; read < READS; read += 1) {
      const maxRows = chaos.happens(BROKEN_OFF) ? chaos.below(4) : Infinity
      try {
        const running = await pipeline.store.readWithManifest(tenant, id)
        if (running === undefined || running.job.ended) return followed
        followed = await readOn(provisional, running, { followed, maxRows })
      } catch (error) {
        if (error instanceof LostResultsError) return undefined
        if (!isInfrastructure(error)) throw error
      }
      await sleep(READ_EVERY_MS)
    }
    return followed
  }
}

type Reading = { readonly followed: Followed, readonly maxRows: number }

/**
 * What the client has after one more answer, which breaks off after `maxRows`. One whose cursor was
 * refused starts again.
 */
async function readOn (
  provisional: ProvisionalResults, { job, manifest }: ArchivedJob, { followed, maxRows }: Reading
): Promise<Followed> {
  const blocks = countedBlocks(manifest)
  const fit = checkCursor(job, blocks, followed.cursor)
  if (fit === 'behind') return followed
  const before = fit === 'fits'
    ? followed
    : { rows: [], cursor: cursorAfter(blocks, 0), restarts: followed.restarts + 1 }
  const read = await provisional.open(
    { job, blocks, after: before.cursor }, { withReference: true })
  const more: (readonly string[])[] = []
  let cursor = before.cursor
  for await (const { rows, window } of read.rows) {
    for (const row of rows) {
      if (more.length >= maxRows) return { ...before, rows: [...before.rows, ...more], cursor }
      more.push(row)
      cursor = { ...window, row: Number(row[0]) }
    }
  }
  return { ...before, rows: [...before.rows, ...more], cursor: read.next }
}

type Expected = {
  /** The rows of the file, with their ids. */
  readonly cells: readonly (readonly string[])[]
  /** Whether a message of the job was broken: inputs are blank until a copy of it arrives. */
  readonly isBroken: boolean
  /** Whether Redis was lost: its jobs are counted again, so cursors may be refused. */
  readonly isLost: boolean
}

const INPUT_COLUMNS = ['input', 'extension', 'vanity'].map(name =>
  columnsOf('phone-validation').indexOf(name))

/** The rows that a client got while its job ran, and those after its cursor, are the file. */
export async function checkFollowed (
  pipeline: Pipeline, { archived, followed }: {
    readonly archived: ArchivedJob, readonly followed: Followed | undefined
  }, { cells, isBroken, isLost }: Expected, complain: Complain
): Promise<void> {
  if (followed === undefined) return
  const provisional = new ProvisionalResults({ ...pipeline, blocks: pipeline.stores.blocks })
  const { rows, restarts } = await readOn(provisional, archived, { followed, maxRows: Infinity })
  if (!isLost) complain(`${archived.job.id} refused cursors`, 0, restarts)
  const inOrder = rows.toSorted((a, b) => Number(a[0]) - Number(b[0]))
  const isBlank = (row: readonly string[], column: number) => isBroken && row[column] === '' &&
    [...INPUT_COLUMNS, row.length - 1].includes(column)
  complain(`${archived.job.id} rows while it ran`, cells, inOrder.map((row, index) =>
    row.map((cell, column) => isBlank(row, column) ? cells[index]?.[column] : cell)))
}
