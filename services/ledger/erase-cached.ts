import type { RecordCache } from '../cache/cache.ts'
import type { Tokenizer } from '../cache/tokenizer.ts'
import type { OrganizationKeys } from '../accounts/organization-keys.ts'
import type { ErasureRequest } from '../jobs/erasures.ts'
import type { JobKeyCopy } from '../jobs/job-key-copy.ts'
import type { JobKeyEraser } from '../jobs/job-key-eraser.ts'
import { openJobKey } from '../jobs/job-key-parts.ts'
import type { ReadingDeps } from '../results/read-chunks.ts'
import type { Archive } from '../results/archive.ts'
import { columnsOf, identitiesOf, SERVICES } from '../results/columns.ts'
import { createResults, type Rows } from '../results/results.ts'

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
    const found = await deps.archive.find(tenant, id)
    if (found === undefined) return
    const { job, manifest } = found
    const { kind } = SERVICES[job.service]
    const column = columnsOf(job.service).indexOf(kind === 'phone' ? 'e164' : 'email')
    const contactsOf = (rows: Rows) =>
      [...new Set(rows.map(cells => cells[column] ?? '').filter(contact => contact !== ''))]
    for await (const rows of results.rows(job, manifest)) {
      // A version that is not configured stands for the newest one; `rotated` has all others.
      const scope = { tenant, service: job.service, version: '' }
      const contacts = identitiesOf(kind, contactsOf(rows))
      const { version, tokens, rotatedTokens: rotated } = deps.tokenize(scope, contacts)
      await deps.cache.erase({ ...scope, version, rotated }, tokens)
    }
  }
}
