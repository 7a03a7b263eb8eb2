import Fastify from 'fastify'
import { expect, it } from 'vitest'
import { countRequests } from '../../../services/ingest/request-meters.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'

it('requests are counted under their route, never under the address that was sent', async () => {
  const app = Fastify()
  const metrics = createMetrics()
  app.get('/jobs/:id', async (_request, reply) => await reply.code(404).send())
  countRequests(app, metrics)
  await app.inject('/jobs/1?key=secret')
  await app.inject('/jobs/2')
  await app.inject('/nowhere/3')
  const text = await metrics.text()
  expect(text).toContain('http_requests_total{method="GET",route="/jobs/:id",status="404"} 2')
  expect(text).toContain('http_requests_total{method="GET",route="none",status="404"} 1')
  expect(text).toContain('http_request_seconds_count{method="GET",route="/jobs/:id"} 2')
  expect(text).not.toMatch(/secret|nowhere/)
})
