import { describe, expect, it } from 'vitest'
import { refusedAddresses, REBOUND_NAMES } from '../../support/data/webhook-addresses.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, free, newCustomer, refusal, shared } from './support.ts'

/** An evenly spread sample of a list; test/properties/webhook-addresses.test.ts tries all. */
const some = <T>(list: readonly T[], count: number): readonly T[] =>
  list.filter((_, index) => index % Math.floor(list.length / count) === 0)

type Attempt = { readonly attempt: number, readonly outcome: string, readonly reason: string }

/** The attempts of a job's webhook, once there are so many. */
async function attemptsOf (id: string, key: string, count: number): Promise<readonly Attempt[]> {
  return await eventually(async () => {
    const { json: { data } } = await ask(`/jobs/${id}/deliveries`, { key })
    expect(data).toHaveLength(count)
    return data.toReversed()
  })
}

const outcomes = (attempts: readonly Attempt[]) =>
  attempts.map(({ outcome, reason }) => [outcome, reason])

describe.concurrent('a webhook address', () => {
  it('that is not public is 400', async () => {
    const { canary } = shared()
    const { key } = await newCustomer()
    for (const address of some(refusedAddresses(canary.port), 24)) {
      expect([address, ...await refusal({ ...free, webhook_url: address }, { key })])
        .toEqual([address, 400, 'invalid_webhook_url', 'webhook_url'])
    }
    expect(await refusal({ ...free, webhook_url: 1 }))
      .toEqual([400, 'invalid_request', 'webhook_url'])
    expect(canary.connections()).toBe(0)
  })

  it('whose name leads to a private network, by any record type, is never reached', async () => {
    const { canary } = shared()
    const { key } = await newCustomer()
    const names = some(REBOUND_NAMES, 8)
    const jobs = await Promise.all(names.map(async name => {
      const body = { ...free, webhook_url: `https://${name}:${canary.port}/hook` }
      const { status, json } = await ask('/jobs', { key, body })
      expect([name, status]).toEqual([name, 202])
      return json.id as string
    }))
    for (const [at, id] of jobs.entries()) {
      expect([names[at], outcomes(await attemptsOf(id, key, 2))]).toEqual([names[at], [
        ['failed', 'blocked_address'], ['exhausted', 'blocked_address'],
      ]])
    }
    expect(canary.connections()).toBe(0)
  })

  it('has errors that reveal nothing about the network', async () => {
    const { key } = await newCustomer()
    const body = { ...free, webhook_url: 'https://plain.rebound.net/secret-path' }
    const { json } = await ask('/jobs', { key, body })
    await attemptsOf(json.id, key, 2)
    const { text } = await ask(`/jobs/${json.id}/deliveries`, { key })
    expect(text).not.toMatch(/127\.0\.0\.1|rebound|secret-path/)
  })
})
