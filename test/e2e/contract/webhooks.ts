import { randomUUID } from 'node:crypto'
import { expect, it } from 'vitest'
import { verifyWebhook } from '../../../services/client/verify-webhook.ts'
import {
  newCustomer, newNumbers, receiver, service, whileHalted, workspace,
} from './support.ts'
import { commandOn } from '../../support/admin.ts'

const showWebhookSecret = commandOn('webhook-secret show')

const addressFor = (status: number) => {
  const path = `/${status}/${randomUUID()}`
  return { path, url: `http://127.0.0.1:${receiver.port}${path}` }
}
const secretOf = async (org: string) =>
  (await workspace(parts => showWebhookSecret(parts, { org }))).webhookSecret as string

it('a webhook reports a cancelled job with its status resource and no rows', async () => {
  const { orgId, live } = await newCustomer()
  const { path, url } = addressFor(200)
  const number = newNumbers(1)
  const id = await whileHalted('verify-1', async () => {
    const created = await live.client.createJob({ service, inputs: number, webhook_url: url })
    await live.client.cancel(created.id)
    return created.id
  })
  const [got] = await receiver.until(1, path)
  const job = await live.client.job(id)
  const event = JSON.parse(got?.body ?? '')
  expect(event).toEqual({
    id: expect.stringMatching(/^evt_/),
    type: 'job.cancelled',
    api_version: '2026-08-11',
    livemode: true,
    timestamp: job.completedAt,
    data: job,
  })
  expect(got?.body).not.toContain(number[0])
  expect(got?.headers['webhook-id']).toBe(event.id)
  expect(verifyWebhook({ ...got!, secret: await secretOf(orgId) }).ok).toBe(true)
})
