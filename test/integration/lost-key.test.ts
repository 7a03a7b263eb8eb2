import { Kafka, logLevel } from 'kafkajs'
import { afterAll, describe, expect, it } from 'vitest'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createClient } from '../../services/client/client.ts'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { startAlone, type RunningServices } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'
import { parseCsv } from '../support/stacks/environment.ts'

const { env, servicesDir } = testStack()
const redis = openRedis(env.REDIS_STATE_URL ?? '')
/** They hand rows out, to which nothing happens then. */
const EARLY = ['ingest', 'normalize', 'lookup', 'ledger']
const start = (stages: readonly string[]) => startAlone({ env, stages, servicesDir })
let services: RunningServices | undefined
afterAll(async () => {
  await services?.stop()
  redis.disconnect()
})

/** The last one is answered late, so that the job is still under way when the others are done. */
const inputs = [
  ...Array.from({ length: 1_200 }, (_, index) => `+1 212 736 ${1_000 + index}`), '+1 212 736 0004',
]

async function searchGroups (): Promise<readonly string[]> {
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  const { groups } = await admin.listGroups()
  await admin.disconnect()
  return groups.map(({ groupId }) => groupId).filter(group => group.includes('last-value'))
}

describe('the data key of a running job, lost from Redis', () => {
  it('is restored from its topic, and every row can be read', async () => {
    services = await start(EARLY)
    const { orgId, keys } = await createDemo(env)
    const clientNow = () =>
      createClient({ baseUrl: services?.baseUrl ?? '', apiKey: keys.test })
    const metadata = { campaign: 'spring' }
    const { id } = await clientNow().createJob({ service: 'phone-validation', inputs, metadata })
    // Every process that caches the key ends, and Redis loses it.
    await services.stop()
    const { dataKey } = jobKeys(tenantOf(orgId, 'test'), id)
    const wrapped = await redis.getBuffer(dataKey)
    expect(await redis.del(dataKey)).toBe(1)

    services = await start([...EARLY, 'verify', 'settle'])
    expect((await clientNow().job(id)).metadata).toEqual(metadata)
    const job = await clientNow().waitForEnd(id)
    expect(job.status).toBe('completed')
    expect([job.successRecords, job.failedRecords]).toEqual([1_201, 0])
    const rows = parseCsv(await clientNow().results(id))
    expect(rows.map(row => row['input'])).toEqual(inputs)
    expect(new Set(rows.map(row => row['status']))).toEqual(new Set(['valid']))
    expect(await redis.getBuffer(dataKey)).toEqual(wrapped)
    expect(await redis.pttl(dataKey)).toBeLessThanOrEqual(600_000)
    expect(await searchGroups()).toEqual([])
  })
})
