import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { Pool } from 'undici'
import { atConstantRate, mobileNumber } from '../jobs.ts'

/** A load of one-row jobs: `clients` in a closed loop, or one POST every `everyMs`. */
export type SmallLoad = { readonly seconds: number } &
  ({ readonly clients: number } | { readonly everyMs: number })

/** POST to 202 of every accepted job, and the number of other responses. */
export type SmallLoadResult = { readonly timesMs: readonly number[], readonly refused: number }

/**
 * The process of the client, so that its CPU time is not that of the bench or of a service. It
 * gets loads from its parent and responds to each with the result. No two jobs share a contact.
 */
const [, , baseUrl = '', apiKey = ''] = process.argv
const { origin, pathname } = new URL(`${baseUrl}/jobs`)
const pool = new Pool(origin, { connections: 256, pipelining: 1 })
let serial = 0

process.on('message', async (load: SmallLoad) => process.send?.(await run(load)))

async function run (load: SmallLoad): Promise<SmallLoadResult> {
  const timesMs: number[] = []
  let refused = 0
  const post = async () => {
    const sentAt = performance.now()
    if (await postJob() === 202) timesMs.push(performance.now() - sentAt)
    else refused += 1
  }
  const until = delay(load.seconds * 1_000)
  if ('everyMs' in load) {
    await atConstantRate(load.everyMs, { until, work: post })
  } else {
    const endAt = performance.now() + load.seconds * 1_000
    await Promise.all(Array.from({ length: load.clients }, async () => {
      while (performance.now() < endAt) await post()
    }))
  }
  return { timesMs, refused }
}

/** Sends a job with a contact that no earlier one has; returns the status of the response. */
async function postJob (): Promise<number> {
  const { statusCode, body } = await pool.request({
    path: pathname,
    method: 'POST',
    headers: {
      authorization: `Bearer ${apiKey}`,
      'content-type': 'application/json',
      'idempotency-key': randomUUID(),
    },
    body: JSON.stringify({ service: 'phone-validation', inputs: [mobileNumber(serial++)] }),
  })
  await body.dump()
  return statusCode
}
