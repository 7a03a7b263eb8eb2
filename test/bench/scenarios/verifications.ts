import type { Client } from '../../../services/client/client.ts'
import type { BenchContext } from '../context.ts'
import { freshPhones } from '../jobs.ts'
import { percentilesOf, type Percentiles } from '../percentiles.ts'

/** Latencies of POST /api/v1/verifications, from the request to the last byte of the rows. */
export type VerificationFigures = {
  /** One contact that is in the cache. */
  readonly cached: Percentiles
  /** One contact that is checked by its numbering plan. */
  readonly fresh: Percentiles
  /** A hundred contacts that are in the cache. */
  readonly cached100: Percentiles
}

const WARM_UP = 20
const REQUESTS = 200

/** Verifies a contact at a time, one request after another, on otherwise idle services. */
export async function measureVerifications (
  { client, log }: Pick<BenchContext, 'client' | 'log'>
): Promise<VerificationFigures> {
  log(`${REQUESTS} verifications of one contact, fresh and then cached, and of a hundred`)
  await timeVerifications(client, () => freshPhones(1), WARM_UP)
  const fresh = await timeVerifications(client, () => freshPhones(1), REQUESTS)
  const known = freshPhones(1)
  await client.verify({ service: 'phone-validation', inputs: known, countryCode: 'US' })
  const cached = await timeVerifications(client, () => known, REQUESTS)
  const hundred = freshPhones(100)
  await client.verify({ service: 'phone-validation', inputs: hundred, countryCode: 'US' })
  const cached100 = await timeVerifications(client, () => hundred, REQUESTS)
  return { cached, fresh, cached100 }
}

async function timeVerifications (
  client: Client, inputsOf: () => readonly string[], count: number
): Promise<Percentiles> {
  const times: number[] = []
  for (let request = 0; request < count; request++) {
    const inputs = inputsOf()
    const sentAt = performance.now()
    const { id, status, results } = await client.verify({
      service: 'phone-validation', inputs, countryCode: 'US',
    })
    times.push(performance.now() - sentAt)
    if (status !== 'completed' || results.length !== inputs.length) {
      throw new Error(`${id} is ${status} with ${results.length} of ${inputs.length} rows`)
    }
  }
  return percentilesOf(times)
}
