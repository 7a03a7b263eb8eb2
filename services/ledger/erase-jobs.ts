import type { ErasureRequest, Erasures, JobKeyEraser } from '../jobs/erasures.ts'
import { requestedAtMs } from '../jobs/job.ts'
import { createCachedReading, type Metrics } from '../runtime/platform/metrics.ts'
import { type Clock, startRepeating } from '../runtime/platform/retry.ts'
import { isOutageOrFatal } from '../runtime/platform/errors.ts'
import { failpoint } from '../runtime/platform/failpoint.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { RecordCache } from '../cache/cache.ts'
import type { Tokenizer } from '../cache/tokens.ts'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import type { JobKeyCopy } from '../jobs/wrapped-keys.ts'
import { openJobKey } from '../jobs/job-keys.ts'
import type { Archive } from '../jobs/results/archive.ts'
import { listColumns, contactIdentities, SERVICE_DEFINITIONS } from '../jobs/results/columns.ts'
import { createResults, type Rows, type ReadingDeps } from '../jobs/results/results.ts'

export type EraseJobsDeps = {
  readonly erasures: Pick<Erasures,
    'requested' | 'compacting' | 'postpone' | 'await' | 'complete' | 'backlog'>
  readonly keys: Pick<JobKeyEraser,
    'destroy' | 'rewriteAof' | 'copiesInTopic' | 'writeTombstones' | 'removeCopies'>
  /** Deletes the cached records of a job's contacts. */
  readonly eraseCached: (request: ErasureRequest) => Promise<void>
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  /** True while this ledger leads. */
  readonly isLeader: () => boolean
  /** Pause between two rounds. */
  readonly everyMs: number
}

/** Per round, so that a mutation of ClickHouse and the memory of a round stay small. */
const MAX_ERASURES = 1_000
/** The brokers take up to half an hour, and each check reads the topic of keys. */
const ROUNDS_PER_CHECK = 5
/** So many of each phase are read for the age of the oldest. */
const MAX_METERED = 1_000

/**
 * Erases the requested jobs in rounds until stopped, while this ledger leads. A round deletes, for
 * the new ones together, the keys in Redis and its file; for those whose keys the brokers have
 * deleted, the copies in ClickHouse with one mutation per tenant; and for as long as the pause
 * between two rounds, cached records where that is wanted, and then their keys. Every step can be
 * repeated, so a crash or failure leaves the rest to the next round.
 */
export function startErasing (deps: EraseJobsDeps): { readonly stop: () => Promise<void> } {
  watchErasures(deps)
  const warn = (err: unknown) => deps.log.warn({ err }, 'erasing jobs failed, retrying')
  return startRepeating(deps.everyMs, async () => {
    if (!deps.isLeader()) return
    const requested = await deps.erasures.requested(MAX_ERASURES)
    const withCache = requested.filter(({ cache }) => cache)
    // Without its key nobody can read which cached records a job has.
    const needed = new Set(withCache.map(({ job }) => job))
    const others = requested.filter(({ job }) => !needed.has(job))
    await destroyKeys(deps, others).catch(warn)
    await removeCompacted(deps).catch(warn)
    await eraseWithCache(deps, withCache)
  }, warn)
}

/**
 * Those that fail are tried after all others. Without an end, an outage of the cache would keep
 * the keys of all other jobs for as long as each of a thousand attempts takes.
 */
async function eraseWithCache (
  deps: EraseJobsDeps, requests: readonly ErasureRequest[]
): Promise<void> {
  const { erasures, clock, everyMs } = deps
  const [ready, failed, left]: [ErasureRequest[], ErasureRequest[], ErasureRequest[]] = [[], [], []]
  const endsAtMs = performance.now() + everyMs
  for (const request of requests) {
    if (performance.now() >= endsAtMs) left.push(request)
    else if (await eraseCache(deps, request)) ready.push(request)
    else failed.push(request)
  }
  const nowMs = clock.now()
  await erasures.postpone(left, nowMs)
  await erasures.postpone(failed, nowMs + 1)
  await destroyKeys(deps, ready)
}

async function destroyKeys (
  { erasures, keys, clock, everyMs }: EraseJobsDeps, requests: readonly ErasureRequest[]
): Promise<void> {
  if (requests.length === 0) return
  for (const some of byTenant(requests)) await keys.destroy(some)
  failpoint('erasing.destroyed')
  await keys.rewriteAof()
  await erasures.await(requests, clock.now() + everyMs)
}

/** False if the cache or a store is unavailable: the next round tries again. */
async function eraseCache (
  { eraseCached, log }: EraseJobsDeps, request: ErasureRequest
): Promise<boolean> {
  const { tenant, job } = request
  try {
    await eraseCached(request)
  } catch (error) {
    if (isOutageOrFatal(error)) {
      log.warn({ tenant, job, err: error }, 'erasing cached records failed, retrying')
      return false
    }
    log.error({ tenant, job, err: error },
      'cached records of an erased job stay, because its results are unreadable')
  }
  return true
}

async function removeCompacted (deps: EraseJobsDeps): Promise<void> {
  const { erasures, keys, clock, log, everyMs } = deps
  const { erasures: waiting, isDue } = await erasures.compacting(MAX_ERASURES, clock.now())
  if (!isDue || waiting.length === 0) return
  const jobs = waiting.map(({ job }) => job)
  const sinceMs = jobs.reduce((least, job) => Math.min(least, requestedAtMs(job)), Infinity)
  const copies = await keys.copiesInTopic(jobs, sinceMs)
  const gone = waiting.filter(({ job }) => !copies.has(job))
  // ClickHouse comes after the topic, because ledger copies keys from the topic to ClickHouse.
  for (const some of byTenant(gone)) await keys.removeCopies(some)
  failpoint('erasing.removed')
  await erasures.complete(gone, clock.now())
  if (gone.length > 0) log.info({ jobs: gone.length }, 'keys of erased jobs deleted everywhere')
  const left = waiting.filter(({ job }) => copies.has(job))
  // Brokers never compact the active segment; a write makes a quiet topic roll it.
  for (const some of byTenant(left)) await keys.writeTombstones(some)
  await erasures.await(left, clock.now() + ROUNDS_PER_CHECK * everyMs)
}

function byTenant (requests: readonly ErasureRequest[]) {
  return [...Map.groupBy(requests, ({ tenant }) => tenant)].map(([tenant, some]) =>
    ({ tenant, jobs: [...new Set(some.map(({ job }) => job))] }))
}

/** Reports the erasures that are not complete, read from Redis when metrics are scraped. */
function watchErasures ({ erasures, clock, metrics, log }: EraseJobsDeps): void {
  const read = createCachedReading(
    async () => [await erasures.backlog(MAX_METERED)], { name: 'the queue of erasures', log })
  metrics.watchAll('erasures_pending', async () =>
    (await read()).flatMap(({ requested, compacting }) => [
      { labels: { phase: 'requested' }, value: requested },
      { labels: { phase: 'compacting' }, value: compacting },
    ]))
  metrics.watchAll('erasure_oldest_seconds', async () =>
    (await read()).map(({ oldestAtMs }) => ({
      labels: {}, value: oldestAtMs === undefined ? 0 : (clock.now() - oldestAtMs) / 1_000,
    })))
}

export type EraseCachedDeps = Pick<ReadingDeps, 'blocks' | 'codec'> & {
  readonly archive: Pick<Archive, 'find'>
  readonly keyCopy: Pick<JobKeyCopy, 'find'>
  /** Finds what is not copied to ClickHouse yet. */
  readonly keys: Pick<JobKeyEraser, 'findInTopic'>
  readonly organizationKeys: Pick<OrganizationKeys, 'unwrap'>
  readonly tokenize: Tokenizer
  readonly cache: Pick<RecordCache, 'erase'>
}

/**
 * Deletes the cached records of the contacts of a job, whichever job they come from. The job is
 * marked as erased, so its key is read from ClickHouse, which loses it last.
 * @throws MissingResultsError, SealError or ResultsError when its results are unreadable.
 */
export function createCachedErasure (deps: EraseCachedDeps) {
  const keys = {
    get: async (tenant: string, job: string): Promise<Buffer | undefined> => {
      const wrapped = await deps.keyCopy.find(tenant, job) ??
        await deps.keys.findInTopic(tenant, job)
      return wrapped === undefined
        ? undefined
        : await openJobKey(deps.organizationKeys, 'results', { tenant, job, wrapped })
    },
  }
  const results = createResults({ ...deps, keys })
  return async ({ tenant, job: id }: Pick<ErasureRequest, 'tenant' | 'job'>): Promise<void> => {
    const archived = await deps.archive.find(tenant, id)
    if (archived === undefined) return
    const { job, manifest } = archived
    const { kind } = SERVICE_DEFINITIONS[job.service]
    const column = listColumns(job.service).indexOf(kind === 'phone' ? 'e164' : 'email')
    const listContacts = (rows: Rows) =>
      [...new Set(rows.map(cells => cells[column] ?? '').filter(contact => contact !== ''))]
    for await (const rows of results.rows(job, manifest)) {
      // A version that is not configured stands for the newest one; `rotated` has all others.
      const scope = { tenant, service: job.service, version: '' }
      const contacts = contactIdentities(kind, listContacts(rows))
      const { version, tokens, rotatedTokens: rotated } = deps.tokenize(scope, contacts)
      await deps.cache.erase({ ...scope, version, rotated }, tokens)
    }
  }
}
