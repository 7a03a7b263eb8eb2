import { expect, it } from 'vitest'
import { createWebhookEndpointsApi } from '../../../services/client/webhook-endpoints.ts'
import type { Call } from '../../../services/client/transport.ts'

const attempt = (number: number) => ({ attempt: number })

it('the client has a call for each operation of webhook endpoints', async () => {
  const calls: [string, Call | undefined][] = []
  const api = createWebhookEndpointsApi(async (path, call) => {
    calls.push([path, call])
    if (!path.includes('/deliveries')) return Response.json({ id: 'we_1', data: [] })
    return path.includes('after=')
      ? Response.json({ data: [attempt(1)], has_more: false, next_cursor: null })
      : Response.json({ data: [attempt(2)], has_more: true, next_cursor: 'c' })
  })
  const body = { url: 'https://hooks.example.com/in' }
  await api.createWebhookEndpoint(body)
  expect(await api.webhookEndpoints()).toEqual([])
  await api.webhookEndpoint('we_1')
  await api.updateWebhookEndpoint('we_1', { enabled: false })
  await api.deleteWebhookEndpoint('we_1')
  await api.rotateWebhookEndpointSecret('we_1')
  const attempts: unknown[] = []
  for await (const one of api.endpointDeliveries('we_1')) attempts.push(one)
  expect(attempts).toEqual([attempt(2), attempt(1)])
  expect(calls).toEqual([
    // A lost response may have created an endpoint or a secret.
    ['/webhook-endpoints', { method: 'POST', body, repeatable: false }],
    ['/webhook-endpoints', undefined],
    ['/webhook-endpoints/we_1', undefined],
    ['/webhook-endpoints/we_1', { method: 'PATCH', body: { enabled: false } }],
    ['/webhook-endpoints/we_1', { method: 'DELETE' }],
    ['/webhook-endpoints/we_1/rotate-secret', { method: 'POST', repeatable: false }],
    ['/webhook-endpoints/we_1/deliveries?limit=100', undefined],
    ['/webhook-endpoints/we_1/deliveries?limit=100&after=c', undefined],
  ])
})
