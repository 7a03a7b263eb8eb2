import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { createRedisLimiter } from '../../../../services/ingest/limits/limiter.ts'

it('the shared buckets of an organization are one key under its hash tag', async () => {
  const calls: unknown[][] = []
  const call = async (...sent: unknown[]) => {
    calls.push(sent)
    return ['admitted', '199']
  }
  const limiter = createRedisLimiter({ call } as unknown as Redis, () => ({
    post: [{ capacity: 100, seconds: 1 }, { capacity: 1_000, seconds: 60 }],
    get: [{ capacity: 200, seconds: 1 }],
  }))
  await limiter.admit({ org: 'org_1', kind: 'get' })
  await limiter.refund({ org: 'org_1', kind: 'post' })
  expect(calls.map(([, , ...rest]) => rest)).toEqual([
    [1, 'limit:{org_1}:get', 200, 1], [1, 'limit:{org_1}:post', 100, 1, 1_000, 60],
  ])
})
