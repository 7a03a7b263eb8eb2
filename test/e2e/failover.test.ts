import { expect, it } from 'vitest'
import { createClient } from '../../services/client/client.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { balanceOf } from '../support/organizations.ts'
import { startWatchedRedis } from '../support/redis/sentinel.ts'
import { startAlone } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'
import { breachesOf, runJob } from '../support/stacks/environment.ts'

const redis = closeAfterAll(await startWatchedRedis())
const stack = testStack()
// As a managed Redis without an append-only file.
const env = { ...stack.env, REDIS_STATE_URL: redis.url, STATE_DURABILITY: 'replicas' }
const services = closeAfterAll(await startAlone({ env, servicesDir: stack.servicesDir }))

/** The metric of the alert RedisNotPersisted, once a process reports it. */
const persistenceFailed = () => eventually(async () => {
  const texts = await Promise.all(services.list().map(async ({ metricsUrl }) =>
    await (await fetch(metricsUrl)).text()))
  const [, value] = /^redis_persistence_failed\{store="state"[^}]*\} (\d)$/m
    .exec(texts.join('\n')) ?? []
  expect(value).toBeDefined()
  return Number(value)
})

const isReady = async () => {
  const answers = await Promise.all(services.list().map(({ metricsUrl }) =>
    fetch(metricsUrl.replace('/metrics', '/readyz'))))
  return answers.every(({ ok }) => ok)
}

it('a promoted replica gets the writes that it lost from the journal', async () => {
  const { orgId, keys } = await createDemo(env)
  const client = createClient({ baseUrl: services.baseUrl, apiKey: keys.live })
  const job = (inputs: readonly string[]) =>
    runJob(client, { service: 'phone-validation', inputs: [...inputs] })
  const before = await job(['+12127365000'])
  expect([await persistenceFailed(), await isReady()]).toEqual([0, true])
  redis.cutReplica()
  const lost = await job(['+12127365001', '+12127365002'])
  const balance = await balanceOf(env, orgId)
  const isReplicated = ({ created }: typeof lost) =>
    redis.isReplicated(jobRedisKeys(tenantOf(orgId, 'live'), created.id).job)
  expect([isReplicated(before), isReplicated(lost)]).toEqual([true, false])
  await redis.loseMaster()

  const found = await client.job(lost.created.id)
  expect(found).toMatchObject({ status: 'completed', chargedMicros: lost.job.chargedMicros })
  const after = await job(['+12127365003'])
  expect(after.job.chargedMicros).toBeGreaterThan(0)
  expect(await client.results(before.created.id)).toContain('+12127365000')
  const { availableMicros, chargedMicros } = await balanceOf(env, orgId)
  expect({ availableMicros, chargedMicros }).toEqual({
    availableMicros: balance.availableMicros - after.job.chargedMicros,
    chargedMicros: balance.chargedMicros + after.job.chargedMicros,
  })
  expect(await breachesOf(env, orgId)).toEqual([])
  // The alert says that the new master has no replica; requests go on.
  expect([await persistenceFailed(), await isReady()]).toEqual([1, true])
})
