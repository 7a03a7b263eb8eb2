import { createServer } from 'node:http'
import type { BenchContext } from '../run.ts'
import { freshPhones, repeat, timeJob, withDeadline } from '../jobs.ts'
import { listen } from '../../support/listen.ts'

/** Allows services to deliver to a receiver on this machine, at any rate. */
export const LOCAL_RECEIVERS = {
  WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'true', WEBHOOK_HOST_RATE: '100000',
}

const CLIENTS = 16
const ROWS_PER_DELIVERY = 50

/**
 * Measures the throughput of `deliver`: many small jobs end while it is stopped, so all events are
 * there when it starts, and the speed of the jobs has no influence.
 */
export async function measureWebhooks (context: BenchContext) {
  const { client, services, scale, rows, log } = context
  const deliveries = Math.ceil(rows / ROWS_PER_DELIVERY)
  log(`webhooks: ${deliveries} one-row jobs, then their events to a receiver on this machine`)
  const receiver = await startReceiver(deliveries)
  try {
    const inputs = freshPhones(1)
    await timeJob(client, inputs)
    await services.setScale({ ...scale, deliver: 0 })
    const startedAt = performance.now()
    await repeat(deliveries, CLIENTS, () => client.createJob({
      service: 'phone-validation', inputs, countryCode: 'US', webhook_url: receiver.url,
    }))
    const jobsMs = performance.now() - startedAt
    await services.setScale(scale)
    const wallMs = await withDeadline('the last delivery', receiver.done)
    const rate = (count: number, ms: number) => count / ms * 1_000
    return {
      deliveries,
      /** Between the first and the last delivery. */
      wallMs,
      deliveriesPerSecond: rate(deliveries - 1, wallMs),
      /** All-cached one-row jobs, from the first POST to the last 202. */
      jobsPerSecond: rate(deliveries, jobsMs),
    }
  } finally {
    receiver.close()
  }
}

/** Responds 200 at once; `done` resolves with the time between the first and the last request. */
async function startReceiver (count: number) {
  const done = Promise.withResolvers<number>()
  let received = 0
  let firstAt = 0
  const server = createServer((request, response) => {
    request.resume()
    response.end()
    received += 1
    if (received === 1) firstAt = performance.now()
    if (received === count) done.resolve(performance.now() - firstAt)
  })
  const port = await listen(server)
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${port}/`, done: done.promise, close }
}
