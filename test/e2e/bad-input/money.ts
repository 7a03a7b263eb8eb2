import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { ask, free, MAX_PRICE_MICROS, newCustomer, newNumbers, service } from './support.ts'

/** Sends it again for as long as others of the same organization have all places. */
const post = (key: string, body: unknown) => eventually(async () => {
  const answer = await ask('/jobs', { key, body })
  expect(['concurrent_jobs_limit', 'rate_limited']).not.toContain(answer.code)
  return answer
})

describe.concurrent('the last of the money', () => {
  it('is spent exactly by fifty posts at once', async () => {
    const { key, client, balance } = await newCustomer(1_000_000)
    // Each of them wants a fifth of it and a bit: four can have it.
    const wanted = Array.from({ length: 50 }, () => ({ service, inputs: newNumbers(110) }))
    const answers = await Promise.all(wanted.map(body => post(key, body)))
    const accepted = answers.filter(({ status }) => status === 202)
    const refused = answers.filter(({ status }) => status !== 202)
    expect(accepted).toHaveLength(4)
    expect(refused.map(({ status, code }) => [status, code]))
      .toEqual(Array(46).fill([402, 'insufficient_balance']))
    expect(refused.map(({ json }) => [json.error.requiredMicros, json.error.availableMicros]))
      .toEqual(Array(46).fill([220_000, 120_000]))
    await Promise.all(accepted.map(({ json }) => client.waitForEnd(json.id)))
    expect(await balance()).toMatchObject({ availableMicros: 120_000, reservedMicros: 0 })
  })

  it('is enough to the micro, and a micro less is not', async () => {
    const inputs = newNumbers(3)
    for (const [micros, expected] of [[6_000, 202], [5_999, 402], [0, 402]] as const) {
      const { key } = await newCustomer(micros)
      expect((await post(key, { service, inputs })).status).toBe(expected)
      expect((await post(key, free)).status).toBe(202)
    }
  })

  it('is too little for the highest quote there can be, a whole number', async () => {
    const { key, client } = await newCustomer(1_000)
    const inputs = newNumbers(100_000)
    const body = { service: 'carrier-single', inputs }
    const { status, code, text } = await ask('/jobs', { key, body })
    expect([status, code]).toEqual([402, 'insufficient_balance'])
    expect(text).toContain(`"requiredMicros":${100_000 * MAX_PRICE_MICROS}`)
    expect(text).toContain('"availableMicros":1000')
    expect((await client.jobsPage({ limit: 1 })).data).toEqual([])
  })
})
