import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { verifyWebhook } from '../../../services/client/verify-webhook.ts'
import {
  newCustomer, newNumbers, receiver, service, whileHalted, workspace, type Account,
} from './support.ts'
import { commandOn } from '../../support/admin.ts'

const rotateWebhookSecret = commandOn('webhook-secret rotate')
const showWebhookSecret = commandOn('webhook-secret show')

const addressFor = (status: number) => {
  const path = `/${status}/${randomUUID()}`
  return { path, url: `http://127.0.0.1:${receiver.port}${path}` }
}
const secretOf = async (org: string) =>
  (await workspace(parts => showWebhookSecret(parts, { org }))).webhookSecret as string
const rotate = async (org: string) =>
  (await workspace(parts => rotateWebhookSecret(parts, { org }))).webhookSecret as string
const historyOf = async ({ client }: Account, id: string, length: number) => {
  await expect.poll(async () => (await client.deliveries(id)).length).toBe(length)
  return client.deliveries(id)
}

describe('a webhook', () => {
  it('reports a cancelled job with its status resource and no rows', async () => {
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

  it('has one signature for each active secret while they change', async () => {
    const { orgId, test } = await newCustomer()
    const former = await secretOf(orgId)
    const current = await rotate(orgId)
    const { path, url } = addressFor(200)
    await test.client.createJob({ service, inputs: ['x'], webhook_url: url })
    const [got] = await receiver.until(1, path)
    expect(got?.headers['x-service-signature'])
      .toMatch(/^t=\d{10},v1=[0-9a-f]{64},v1=[0-9a-f]{64}$/)
    expect([former, current].map(secret => verifyWebhook({ ...got!, secret }).ok))
      .toEqual([true, true])
    expect(verifyWebhook({ ...got!, secret: 'whsec_AAAA' }).ok).toBe(false)
  })

  it('that failed is in the history of its job and can be resent', async () => {
    const { test } = await newCustomer()
    const { path, url } = addressFor(500)
    const { id } = await test.client.createJob({ service, inputs: ['x'], webhook_url: url })
    const [last, first] = await historyOf(test, id, 2)
    expect([first, last]).toMatchObject([
      { attempt: 1, outcome: 'failed', statusCode: 500, reason: 'status' },
      { attempt: 2, outcome: 'exhausted', statusCode: 500 },
    ])
    const deliveryId = first?.deliveryId ?? ''
    expect(await test.client.resend(id, deliveryId)).toEqual({ deliveryId, status: 'queued' })
    await receiver.until(3, path)
    expect((await historyOf(test, id, 3))[0]).toMatchObject({ attempt: 3, deliveryId })
  })
})
