import { describe, expect, it } from 'vitest'
import { refusedAddresses, REBOUND_NAMES } from '../../support/data/webhook-addresses.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, free, newCustomer, refusal, shared } from './support.ts'

const AT_ONCE = 8

/** An evenly spread sample of a list; test/properties/webhook-addresses.test.ts tries all. */
const some = <T>(list: readonly T[], count: number): readonly T[] =>
  list.filter((_, index) => index % Math.floor(list.length / count) === 0)

/** Works through a list, a few at once: a tenant has ten places for preflights. */
async function eachOf<T, R> (list: readonly T[], work: (one: T) => Promise<R>): Promise<R[]> {
  const results: R[] = []
  const left = list.map((one, index) => [one, index] as const)
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let next = left.shift(); next !== undefined; next = left.shift()) {
      results[next[1]] = await work(next[0])
    }
  }))
  return results
}

/** Sends it again when the organization was too quick. */
const unthrottled = <T extends { readonly status: number }>(send: () => Promise<T>) =>
  eventually(async () => {
    const answer = await send()
    expect(answer.status).not.toBe(429)
    return answer
  })

type Attempt = { readonly attempt: number, readonly outcome: string, readonly reason: string }

/** The attempts of a job's webhook, once there are so many. */
async function attemptsOf (id: string, key: string, count: number): Promise<readonly Attempt[]> {
  return await eventually(async () => {
    const { json: { data } } = await unthrottled(() => ask(`/jobs/${id}/deliveries`, { key }))
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
    const addresses = some(refusedAddresses(canary.port), 24)
    const answers = await eachOf(addresses, async address => {
      const body = { ...free, webhook_url: address }
      const { status, code, json } = await unthrottled(() => ask('/jobs', { key, body }))
      return [address, status, code, json.error?.param]
    })
    expect(answers).toEqual(addresses.map(address =>
      [address, 400, 'invalid_webhook_url', 'webhook_url']))
    expect(await refusal({ ...free, webhook_url: 1 }))
      .toEqual([400, 'invalid_request', 'webhook_url'])
    expect(canary.connections()).toBe(0)
  })

  it('whose name leads to a private network, by any record type, is never reached', async () => {
    const { canary } = shared()
    const { key } = await newCustomer()
    const names = some(REBOUND_NAMES, 8)
    const ended = await eachOf(names, async name => {
      const body = { ...free, webhook_url: `https://${name}:${canary.port}/hook` }
      const { status, json } = await unthrottled(() => ask('/jobs', { key, body }))
      return [name, status, json.id] as const
    })
    expect(ended.filter(([, status]) => status !== 202)).toEqual([])
    const reported = await eachOf(ended, async ([name, , id]) =>
      [name, outcomes(await attemptsOf(id, key, 2))])
    expect(reported).toEqual(names.map(name => [name, [
      ['failed', 'blocked_address'], ['exhausted', 'blocked_address'],
    ]]))
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
