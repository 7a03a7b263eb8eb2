import { createJobStore } from '../../jobs/store.ts'
import type { Environment } from '../../lib/command-environment.ts'
import { createTenants } from '../../money/tenants.ts'
import { withState } from '../state.ts'
import type { OpenJobsParts } from './open-jobs.ts'

/** Connects to the Redis that knows the jobs, for one piece of work. */
export async function withJobs<T> (
  env: Environment, work: (parts: OpenJobsParts) => Promise<T>
): Promise<T> {
  return await withState(env, async redis => {
    const nowMs = async () => {
      const [seconds, micros] = await redis.time()
      return Number(seconds) * 1_000 + Math.floor(Number(micros) / 1_000)
    }
    const tenants = createTenants(redis).all
    return await work({ store: createJobStore(redis), tenants, nowMs })
  })
}
