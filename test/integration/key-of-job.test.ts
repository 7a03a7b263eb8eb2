import { expect, it } from 'vitest'
import { createJobStore } from '../../services/jobs/store.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { acceptRequest, accepted, blockOf, jobClaim, upTo } from '../support/jobs.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const tenant = 'org_1.live'

it('a job keeps the API key of its request in its record and its entry', async () => {
  await createWallet(redis).topUp(tenant, { id: 'a', amountMicros: 1_000_000, reason: '' })
  await store.claim(tenant, jobClaim('job_1', { apiKey: 'key_1' }))
  const answer = await store.accept(tenant, acceptRequest('job_1'))
  if (answer.kind !== 'accepted') throw new Error(answer.kind)
  expect(answer.job.apiKey).toBe('key_1')
  expect(JSON.parse(answer.entry?.reason ?? '{}')).toMatchObject({ apiKey: 'key_1' })
  const block = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: upTo(10) })
  expect(await store.tally(tenant, block)).toMatchObject({ ended: true, job: { apiKey: 'key_1' } })
  expect((await accepted(store, tenant, acceptRequest('job_2'))).apiKey).toBeUndefined()
})
