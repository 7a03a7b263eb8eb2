import { expect, it } from 'vitest'
import { createKeyCache, createNewJobKeys, openJobKey } from '../../../services/jobs/job-keys.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'

const [results, webhooks] = [organizationKeysOf(1), organizationKeysOf(2)]

it('the key of webhooks opens the header of a job, no results and no other job', async () => {
  const job = 'job_1'
  const { key, wrapped } = await createNewJobKeys({ results, webhooks }, createKeyCache())
    .create('org_1.live', job)
  const stored = { tenant: 'org_1.live', job, wrapped }
  expect(await openJobKey(results, 'results', stored)).toEqual(key)
  expect(await openJobKey(webhooks, 'webhooks', stored)).not.toEqual(key)
  await expect(openJobKey(webhooks, 'results', stored)).rejects.toThrow('lacks key "k1"')
  for (const moved of [{ ...stored, job: 'job_2' }, { ...stored, tenant: 'org_1.test' }]) {
    await expect(openJobKey(results, 'results', moved)).rejects.toThrow('decryption failed')
    await expect(openJobKey(webhooks, 'webhooks', moved)).rejects.toThrow('decryption failed')
  }
})

it('no data key is made before the topic has the keys that wrap it', async () => {
  const unshipped = { ...webhooks, whenShipped: async () => { throw new Error('not shipped') } }
  const keys = createNewJobKeys({ results, webhooks: unshipped }, createKeyCache())
  await expect(keys.create('org_1.live', 'job_1')).rejects.toThrow('not shipped')
})
