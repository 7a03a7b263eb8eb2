import { ApiException } from './errors.ts'

/** Requests of one tenant that wait in this process, beside the one that runs. */
const MAX_WAITING = 10
const RETRY_AFTER_SECONDS = 2

/**
 * Limits expensive reads to one per tenant in this process; further ones wait in order, so that one
 * tenant never uses more than a share of it.
 * @throws ApiException `rate_limited` when too many wait.
 */
export function createTenantGate () {
  const queues = new Map<string, { last: Promise<unknown>, waiting: number }>()
  return async <T>(tenant: string, read: () => Promise<T>): Promise<T> => {
    const queue = queues.get(tenant) ?? { last: Promise.resolve(), waiting: -1 }
    if (queue.waiting >= MAX_WAITING) {
      throw new ApiException({
        code: 'rate_limited',
        message: 'Too many requests of this kind are running for this account. Send it again ' +
          'after the seconds in Retry-After.',
        retryAfterSeconds: RETRY_AFTER_SECONDS,
      })
    }
    queues.set(tenant, queue)
    queue.waiting += 1
    const result = queue.last.then(read)
    queue.last = result.catch(() => {}).finally(() => {
      queue.waiting -= 1
      if (queue.waiting < 0) queues.delete(tenant)
    })
    return await result
  }
}
