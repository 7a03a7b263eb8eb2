import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Client } from '../../../services/client/client.ts'
import { inTime } from '../in-time.ts'
import { phones, timeJob } from '../jobs.ts'
import type { Setting } from '../setting.ts'

export type WebhookFigures = {
  readonly deliveries: number
  /** Between the first and the last one. */
  readonly wallMs: number
  readonly deliveriesPerSecond: number
  /** One-row jobs, all cached, from the first POST to the last 202. */
  readonly jobsPerSecond: number
}

/** The settings that let services send to a receiver on this machine. */
export const LOCAL_RECEIVERS = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOW_LOOPBACK: 'true' }

const CLIENTS = 16
const ROWS_A_DELIVERY = 50

/**
 * Many small jobs end while nothing delivers; then `deliver` starts and has all their events before
 * it, so that its own speed is measured and not that of the jobs.
 */
export async function measureWebhooks (setting: Setting): Promise<WebhookFigures> {
  const { client, services, scale, rows, show } = setting
  const deliveries = Math.ceil(rows / ROWS_A_DELIVERY)
  show(`webhooks: ${deliveries} jobs of one row, then their events to a receiver on this machine`)
  const receiver = await startReceiver(deliveries)
  try {
    const inputs = phones(1)
    await timeJob(client, inputs)
    await services.setScale({ ...scale, deliver: 0 })
    const startedAt = performance.now()
    await createJobs(client, { deliveries, inputs, url: receiver.url })
    const jobsMs = performance.now() - startedAt
    await services.setScale(scale)
    const wallMs = await inTime('the last delivery', receiver.all)
    const rate = (count: number, ms: number) => count / ms * 1_000
    return {
      deliveries,
      wallMs,
      deliveriesPerSecond: rate(deliveries - 1, wallMs),
      jobsPerSecond: rate(deliveries, jobsMs),
    }
  } finally {
    receiver.close()
  }
}

/** Some clients, each with one request at a time. */
async function createJobs (
  client: Client,
  { deliveries, inputs, url }: {
    readonly deliveries: number, readonly inputs: readonly string[], readonly url: string,
  }
): Promise<void> {
  let left = deliveries
  const work = async () => {
    while (left-- > 0) {
      await client.createJob({
        service: 'phone-validation', inputs, countryCode: 'US', webhook_url: url,
      })
    }
  }
  await Promise.all(Array.from({ length: CLIENTS }, work))
}

/** Answers 200 at once; `all` is the time from the first to the last of so many requests. */
async function startReceiver (count: number) {
  const all = Promise.withResolvers<number>()
  let came = 0
  let firstAt = 0
  const server = createServer((request, response) => {
    request.resume()
    response.end()
    came += 1
    if (came === 1) firstAt = performance.now()
    if (came === count) all.resolve(performance.now() - firstAt)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const close = () => {
    server.closeAllConnections()
    server.close()
  }
  return { url: `http://127.0.0.1:${port}/`, all: all.promise, close }
}
