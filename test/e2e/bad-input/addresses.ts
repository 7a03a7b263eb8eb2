import { expect, it } from 'vitest'
import { REBOUND_NAMES } from '../../support/data/webhook-addresses.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, free, newCustomer, shared } from './support.ts'

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

it('a webhook address whose name leads to a private network is never reached', async () => {
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
