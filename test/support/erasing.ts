import type { Redis } from 'ioredis'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { eraseJobs, createEraseDeps } from '../../services/workspace/erase.ts'
import { withStores } from '../../services/workspace/stores.ts'

/** Erases a job that ended, on demand, and does not wait for the brokers to compact. */
export async function eraseNow (
  { stack, tenant }: {
    readonly stack: { readonly env: Readonly<Record<string, string>> }, readonly tenant: string
  },
  job: string
): Promise<void> {
  await withStores(stack.env, stores =>
    eraseJobs(createEraseDeps(stores), { tenant, jobs: [job], waitMs: 0, pollMs: 100 }))
}

/** Whether Redis has the data key of a job. */
export async function hasDataKey (
  { redis, tenant }: { readonly redis: Redis, readonly tenant: string }, job: string
): Promise<boolean> {
  return await redis.exists(jobKeys(tenant, job).dataKey) === 1
}
