import { expect, it } from 'vitest'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { eventually } from '../support/eventually.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { FAKE_WORDS, presetAt, startFakeVendors } from '../support/vendors/fake-vendors.ts'

const vendors = closeAfterAll(await startFakeVendors())
const preset = presetAt(vendors.url, 'http:checknumber', { id: 1 }) as { batch: object }
const environment = closeAfterAll(await startEnvironment({
  HTTP_PROVIDERS: JSON.stringify([{ ...preset, batch: { ...preset.batch, pollMs: 1_000 } }]),
  PROVIDERS: JSON.stringify({ whatsapp: ['http:1'] }),
}, { stages: ['ingest', 'verify'] }))

it('a job buys nothing twice if verify is killed while a vendor has its rows', async () => {
  vendors.behave('running')
  const inputs = ['+12127365000', '+12127365001', '+12127365002']
  const { id } = await environment.live.createJob({
    service: 'whatsapp', inputs, forceFresh: true,
  })
  await eventually(async () => expect(vendors.calls).toContain('POST /v1/gettasks'))
  environment.services.kill('verify-1', 'SIGKILL')
  vendors.behave('well')
  const job = await environment.live.waitForEnd(id)
  expect([job.status, job.freshRecords]).toEqual(['completed', inputs.length])
  expect(vendors.purchases).toEqual([inputs])
  const redis = openRedis(environment.env.REDIS_STATE_URL ?? '')
  const [key = ''] = await redis.keys(`submissions:*${id}*`)
  const values = Object.values(await redis.hgetallBuffer(key)).map(String).join()
  redis.disconnect()
  expect(values.length).toBeGreaterThan(0)
  expect(FAKE_WORDS.filter(word => values.includes(word))).toEqual([])
  expect(await environment.breaches()).toEqual([])
})
