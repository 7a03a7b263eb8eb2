import { afterAll, expect, it } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { createClient } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { eventually } from '../support/eventually.ts'
import { newFolder } from '../support/folder.ts'
import { balanceOf } from '../support/organizations.ts'
import { startRedis, type RedisServer } from '../support/redis/server.ts'
import { breachesOf, runJob } from '../support/stacks/environment.ts'
import { startAlone } from '../support/stacks/services.ts'
import { testStack } from '../support/stacks/stack.ts'

/** The state of a managed Redis that keeps nothing on disk. */
let redis: RedisServer

const startEmpty = () => startRedis(newFolder('redis-'), [
  '--port', String(port), '--bind', '127.0.0.1', '--save', '', '--appendonly', 'no',
  '--maxmemory-policy', 'noeviction',
])

const port = await freePort()
redis = await startEmpty()
const stack = testStack()
const env = {
  ...stack.env, REDIS_STATE_URL: `redis://127.0.0.1:${port}`, STATE_DURABILITY: 'replicas',
}
const services = closeAfterAll(await startAlone({
  env, servicesDir: stack.servicesDir, apart: ['settle'], overrides: { COPY_AFTER_MS: '100' },
}))

afterAll(() => redis.stop())

const numbers = (count: number) =>
  Array.from({ length: count }, (_, index) => `+1212736${5_000 + index}`)

it('money and open jobs come back from the journal when the state is empty', async () => {
  const { orgId, keys } = await createDemo(env)
  const client = createClient({ baseUrl: services.baseUrl, apiKey: keys.live })
  const request = { service: 'phone-validation', forceFresh: true } as const
  const before = await runJob(client, { ...request, inputs: numbers(10) })
  // Everything is in Kafka and in the copy of the journal by then.
  expect(await breachesOf(env, orgId)).toEqual([])
  const balance = await balanceOf(env, orgId)
  await services.setScale({ settle: 0 })
  const open = await client.createJob({ ...request, inputs: numbers(2_000) })
  await eventually(async () => expect((await client.job(open.id)).status).toBe('preparing'))
  expect((await balanceOf(env, orgId)).reservedMicros).toBeGreaterThan(0)

  await redis.stop()
  redis = await startEmpty()
  await services.setScale({ settle: 1 })
  const job = await client.waitForEnd(open.id)
  expect(job).toMatchObject({ status: 'completed', totalRows: 2_000 })
  expect(job.chargedMicros).toBeGreaterThan(0)
  expect((await client.results(open.id)).split('\r\n')).toHaveLength(2_002)
  expect(await client.job(before.created.id))
    .toMatchObject({ status: 'completed', chargedMicros: before.job.chargedMicros })
  expect(await balanceOf(env, orgId)).toMatchObject({
    availableMicros: balance.availableMicros - (job.chargedMicros ?? 0),
    reservedMicros: 0,
    chargedMicros: balance.chargedMicros + (job.chargedMicros ?? 0),
  })
  expect(await breachesOf(env, orgId)).toEqual([])
})
