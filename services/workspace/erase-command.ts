import { createJobStore } from '../jobs/store.ts'
import { tenantOf } from '../accounts/tenant.ts'
import { sleep } from '../lib/retry.ts'
import { UsageError } from '../lib/run-command.ts'
import { createArchive } from '../records/archive.ts'
import type { Environment } from './environment.ts'
import { createErasableKeys } from './erasable-key.ts'
import { eraseJobs, type EraseParts, type Erasure } from './erase.ts'
import { modeOf, type Options } from './options.ts'
import { withStores, type Stores } from './stores.ts'

const MINUTE_MS = 60_000
const POLL_MS = 1_000

/** Erases jobs on the stack that the environment names. */
export async function runErase (
  env: Environment, options: Options
): Promise<Erasure & { readonly note: string }> {
  const { org = '', job = '', waitMinutes = '' } = options
  const minutes = Number(waitMinutes)
  if (waitMinutes === '' || !Number.isFinite(minutes) || minutes < 0) {
    throw new UsageError('--wait-minutes is a number from 0.')
  }
  const jobs = [...new Set(job.split(','))]
  const request = {
    tenant: tenantOf(org, modeOf(options)), jobs, waitMs: minutes * MINUTE_MS, pollMs: POLL_MS,
  }
  const done = await withStores(env, stores => eraseJobs(erasePartsOf(stores), request))
  return { ...done, note: noteOf(done) }
}

/** What erasing needs, on open connections. */
export function erasePartsOf (stores: Stores): EraseParts {
  const archive = createArchive(stores.clickhouse, stores.recordMac)
  return {
    store: createJobStore(stores.redis),
    findArchived: async (tenant, job) => (await archive.find(tenant, job))?.job,
    keys: createErasableKeys(stores),
    now: Date.now,
    sleep,
  }
}

/** What is left to do, in words. */
export function noteOf ({ done, aof }: Erasure): string {
  if (!done) {
    return 'Nobody can read the jobs any more, but copies of wrapped keys are left. Brokers take ' +
      'theirs out within max.compaction.lag.ms of job.keys: run the command again then.'
  }
  return aof === 'none' ? 'Redis keeps no append-only file; erase its snapshots yourself.' : 'Done.'
}
