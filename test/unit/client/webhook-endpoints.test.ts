import { expect, it } from 'vitest'
import { createClient } from '../../../services/client/client.ts'

const attempt = (number: number) => ({ attempt: number })

it('the client has a call for each operation of webhook endpoints', async () => {
  const calls: string[] = []
  const answer = async (url: string, { method, body }: RequestInit) => {
    const path = url.slice('http://there'.length)
    calls.push([method, path, body].join(' ').trimEnd())
    if (!path.includes('/deliveries')) return Response.json({ id: 'we_1', data: [] })
    return path.includes('after=')
      ? Response.json({ data: [attempt(1)], has_more: false, next_cursor: null })
      : Response.json({ data: [attempt(2)], has_more: true, next_cursor: 'c' })
  }
  const api = createClient({ baseUrl: 'http://there', apiKey: 'k', fetch: answer as never })
  const body = { url: 'https://hooks.example.com/in' }
  await api.createWebhookEndpoint(body)
  expect(await api.webhookEndpoints()).toEqual([])
  await api.webhookEndpoint('we_1')
  await api.updateWebhookEndpoint('we_1', { enabled: false })
  await api.deleteWebhookEndpoint('we_1')
  await api.rotateWebhookEndpointSecret('we_1')
  const attempts: unknown[] = []
  for await (const delivery of api.endpointDeliveries('we_1')) attempts.push(delivery)
  expect(attempts).toEqual([attempt(2), attempt(1)])
  expect(calls).toEqual([
    `POST /webhook-endpoints ${JSON.stringify(body)}`,
    'GET /webhook-endpoints',
    'GET /webhook-endpoints/we_1',
    'PATCH /webhook-endpoints/we_1 {"enabled":false}',
    'DELETE /webhook-endpoints/we_1',
    'POST /webhook-endpoints/we_1/rotate-secret',
    'GET /webhook-endpoints/we_1/deliveries?limit=100',
    'GET /webhook-endpoints/we_1/deliveries?limit=100&after=c',
  ])
})

it('the client repeats no request that may have created an endpoint or a secret', async () => {
  let requests = 0
  const api = createClient({
    baseUrl: 'http://there',
    apiKey: 'k',
    pause: async () => {},
    fetch: async () => {
      requests++
      return new Response('', { status: 502 })
    },
  })
  await expect(api.createWebhookEndpoint({ url: 'https://hooks.example.com/in' })).rejects
    .toMatchObject({ status: 502 })
  await expect(api.rotateWebhookEndpointSecret('we_1')).rejects.toMatchObject({ status: 502 })
  expect(requests).toBe(2)
})
