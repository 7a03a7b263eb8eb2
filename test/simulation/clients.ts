import type { VerificationBody } from '../../schemas/api/verifications.ts'
import { ApiException } from '../../services/ingest/errors.ts'
import {
  type AwaitingDeps, awaitResults, findStoredResults,
} from '../../services/ingest/find-jobs.ts'
import { createRowText } from '../../services/ingest/results-response.ts'
import { JobWaiter, type Notifications } from '../../services/jobs/job-waiter.ts'
import type { ArchivedJob } from '../../services/jobs/results/archive.ts'
import { listColumns, listJsonFields } from '../../services/jobs/results/columns.ts'
import {
  checkCursor, countedBlocks, cursorAfter, ProvisionalResults, type ResultCursor,
} from '../../services/jobs/results/provisional.ts'
import { createResults, LostResultsError } from '../../services/jobs/results/results.ts'
import {
  createSubmitter, type SubmitOutcome, type SubmitterOptions,
} from '../../services/jobs/submit.ts'
import { isInfrastructure } from '../../services/runtime/platform/errors.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import type { Cancelling } from './cancels.ts'
import type { Chaos } from './chaos.ts'
import type { ScenarioOutput, Sent } from './evidence.ts'
import type { Complain } from './losses.ts'
import type { Pipeline } from './pipeline.ts'
import { redisLike } from './stages.ts'

/** What a client knows of its request in the end. */
export type Answered = {
  /** Undefined for a 503 to a request without a key. */
  readonly outcome: SubmitOutcome | undefined
  /** The jobs that may have come of its tries. */
  readonly jobs: readonly string[]
  /** Whether Redis was lost meanwhile, so that a refusal needs no other reason. */
  readonly isOutage: boolean
}

export type Request = {
  readonly submission: object
  readonly chaos: Chaos
  readonly onClaimed: Cancelling['onClaimed']
  /** How often Redis was lost by now. Throws when it cannot be recovered. */
  readonly losses: () => number
  /** Without retries: nothing ships the outbox before the end, so they would never stop. */
  readonly once?: boolean
}

const KEYED = 0.6
const AGAIN_AFTER_MS = 50

/** Sends a request as a client does that retries on 503; with a key, until it is answered. */
export async function request (
  options: SubmitterOptions, sent: Request
): Promise<Answered> {
  const { submission, chaos, onClaimed, losses, once = false } = sent
  const idempotencyKey = !once && chaos.happens(KEYED) ? `key-${chaos.below(2 ** 31)}` : ''
  const isKeyed = idempotencyKey !== ''
  const jobs: string[] = []
  const store = recording(options.store, jobs, onClaimed)
  const submit = createSubmitter({ ...options, store })
  const before = losses()
  for (;;) {
    const outcome = await answerOf(submit({ ...submission, idempotencyKey } as never))
    const isOutage = losses() > before
    if (outcome === undefined && !isKeyed) return { outcome, jobs, isOutage: true }
    if (outcome !== undefined && !(isKeyed && isFrozen(outcome))) return { outcome, jobs, isOutage }
    await sleep(AGAIN_AFTER_MS)
  }
}

/**
 * Retried as well: behind the gap that froze the tenant there may be the job of an earlier attempt,
 * which the key is then bound to again.
 */
const isFrozen = (outcome: SubmitOutcome): boolean =>
  outcome.kind === 'refused' && outcome.refusal.code === 'frozen'

/** Undefined when infrastructure was unavailable and the outcome is unknown. */
async function answerOf (submitted: Promise<SubmitOutcome>): Promise<SubmitOutcome | undefined> {
  try {
    return await submitted
  } catch (error) {
    if (isInfrastructure(error)) return undefined
    throw error
  }
}

/** Records every job that is claimed. */
function recording (
  store: SubmitterOptions['store'], jobs: string[], onClaimed: Cancelling['onClaimed']
): SubmitterOptions['store'] {
  return {
    ...store,
    claim: async (tenant, claim) => {
      jobs.push(claim.job)
      onClaimed(tenant, claim.job)
      return await store.claim(tenant, claim)
    },
  }
}

/**
 * What was sent, the answer to a client that waited for its rows, and the ids to find its jobs by
 * where no answer came.
 */
export type Requested = Omit<Sent, 'outcome'> & Answered

/**
 * A request without an answer may have created a job all the same. A refused one may not: whatever
 * its attempts left behind counts as a breach.
 */
export async function known (
  { pipeline: { stores: { archive } }, requested }: ScenarioOutput
): Promise<readonly Sent[]> {
  const sent: Sent[] = []
  for (const { jobs, outcome, ...rest } of requested) {
    if (outcome !== undefined) sent.push({ ...rest, outcome })
    for (const id of outcome === undefined ? jobs : []) {
      const found = await archive.find(rest.tenant, id)
      if (found === undefined) continue
      const accepted = { kind: 'accepted', job: found.job, replayed: false } as const
      sent.push({ ...rest, outcome: accepted })
    }
  }
  return sent
}

const SERVICE = 'phone-validation'
/** Long enough for most jobs, unless Redis is lost meanwhile. */
const WAIT_MS = 2_000

/** A client that waits for the rows of its job, as POST /api/v1/verifications does. */
export function verifierOn (
  pipeline: Pipeline, notifications: Notifications
): (answered: Answered) => Promise<VerificationBody | undefined> {
  const { store, stores: { archive, blocks } } = pipeline
  const waiter = new JobWaiter({
    store, notifications, pollMs: 20, maxWaits: 1_000, maxWaitsPerTenant: 1_000,
  })
  const deps: AwaitingDeps = {
    waitForJob: wait => waiter.wait(wait),
    inlineResultsOf: notifications.inlineResultsOf,
    findResults: (tenant, job) => findStoredResults({ store, archive }, tenant, job),
    findErasures: async () => new Map(),
    rows: createResults({ ...pipeline, blocks }).rows,
    openHeader: async () => ({ metadata: {}, webhookUrl: '', ids: true }),
    now: redisLike.now,
  }
  return async ({ outcome }) => {
    if (outcome?.kind !== 'accepted') return undefined
    const { job } = outcome
    const { signal } = new AbortController()
    try {
      return await awaitResults(deps, { job, retentionMs: Infinity, timeoutMs: WAIT_MS, signal })
    } catch (error) {
      const isLater = error instanceof ApiException || error instanceof LostResultsError
      if (isLater || isInfrastructure(error)) return undefined
      throw error
    }
  }
}

type Found = {
  readonly chargedMicros: number
  readonly cells: readonly (readonly string[])[]
}

/** The rows and the charge that a client got are those of the archive, for ever. */
export function checkVerified (
  { verified }: Sent, { chargedMicros, cells }: Found, complain: Complain
): void {
  if (verified === undefined) return
  const { id, results } = verified
  complain(`${id} charge in its answer`, chargedMicros, verified.chargedMicros)
  const toText = createRowText(SERVICE, { columns: listJsonFields(SERVICE, { ids: true }) })
  const rows = cells.map(row => JSON.parse(`{${toText(row)}}`))
  complain(`${id} rows in its answer`, rows, results)
}

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
  listColumns('phone-validation').indexOf(name))

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
