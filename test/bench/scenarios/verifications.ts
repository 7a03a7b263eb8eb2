import { setTimeout as sleep } from 'node:timers/promises'
import type { Client } from '../../../services/client/client.ts'
import type { BenchContext } from '../run.ts'
import { freshPhones, percentilesOf, type Percentiles } from '../jobs.ts'

const WARM_UP = 20
const REQUESTS = 100
/** After an answer its rows and final record are still being stored, for some 30 ms. */
const PAUSE_MS = 100

/**
 * Verifies a contact at a time on otherwise idle services, which rest between the requests, but for
 * those back to back; times are from the request to the last byte of the rows.
 */
export async function measureVerifications (
  { client, log }: Pick<BenchContext, 'client' | 'log'>
) {
  log(`${REQUESTS} verifications of one contact, fresh and then cached, and of a hundred`)
  await timeVerifications(client, () => freshPhones(1), { count: WARM_UP })
  const fresh = await timeVerifications(client, () => freshPhones(1))
  const known = freshPhones(1)
  await client.verify({ service: 'phone-validation', inputs: known, countryCode: 'US' })
  const cached = await timeVerifications(client, () => known)
  const backToBack = await timeVerifications(client, () => known, { pauseMs: 0 })
  const hundred = freshPhones(100)
  await client.verify({ service: 'phone-validation', inputs: hundred, countryCode: 'US' })
  const cached100 = await timeVerifications(client, () => hundred)
  return { cached, fresh, cached100, backToBack }
}

async function timeVerifications (
  client: Client, inputsOf: () => readonly string[],
  { count = REQUESTS, pauseMs = PAUSE_MS }: { count?: number, pauseMs?: number } = {}
): Promise<Percentiles> {
  const times: number[] = []
  for (let request = 0; request < count; request++) {
    const inputs = inputsOf()
    const sentAt = performance.now()
    const { id, status, results } = await client.verify({
      service: 'phone-validation', inputs, countryCode: 'US',
    })
    times.push(performance.now() - sentAt)
    await sleep(pauseMs)
    if (status !== 'completed' || results.length !== inputs.length) {
      throw new Error(`${id} is ${status} with ${results.length} of ${inputs.length} rows`)
    }
  }
  return percentilesOf(times)
}
