import { describe, expect, it } from 'vitest'
import { proves } from './rows.ts'
import { ended, newCustomer, newNumbers, service, type Account, type Answer } from './support.ts'

const limitsOf = ({ headers }: Answer) => ['limit', 'remaining', 'reset', 'policy']
  .map(name => headers.get(`ratelimit-${name}`))

/** Sends requests, ten at a time, until one is refused; tells how many were not. */
async function untilThrottled (account: Account): Promise<number> {
  for (let admitted = 0; ;) {
    const answers = await Promise.all(Array.from({ length: 10 }, () =>
      account.ask('/jobs', { body: '{' })))
    admitted += answers.filter(({ code }) => code === 'invalid_json').length
    if (answers.some(({ code }) => code === 'rate_limited')) return admitted
    if (admitted > 5_000) throw new Error('no limit after 5,000 requests')
  }
}

describe('the request limits', () => {
  it(proves('are told with every authenticated answer, in whole seconds from now'), async () => {
    const { live } = await newCustomer()
    const posted = await live.ask('/jobs', { body: { service, inputs: ['x'] } })
    expect([limitsOf(posted), posted.headers.get('retry-after')])
      .toEqual([['100', '99', '1', '100;w=1, 1000;w=60'], '0'])
    const read = await live.ask('/nothing/at/all')
    expect(limitsOf(read)).toEqual([null, null, null, null])
    for (const path of ['/balance', '/services', '/jobs', `/jobs/${posted.json.id}`]) {
      const answer = await live.ask(path)
      const [limit, remaining, reset, policy] = limitsOf(answer)
      expect([path, limit, policy, answer.headers.get('retry-after')])
        .toEqual([path, '200', '200;w=1', '0'])
      expect(Number(remaining)).toBeGreaterThan(190)
      expect(reset).toMatch(/^[01]$/)
    }
  })

  it(proves('count quotes, cancels and resends among the POST requests, cached rows as well'),
    async () => {
      const { live } = await newCustomer()
      const inputs = newNumbers(1)
      const { job } = await ended(live, { service, inputs })
      const posts: readonly (readonly [string, object | undefined])[] = [
        ['/jobs', { service, inputs }], ['/quotes', { service, inputs }],
        [`/jobs/${job.id}/cancel`, undefined],
        [`/jobs/${job.id}/deliveries/evt_1/resend`, undefined],
      ]
      for (const [path, body] of posts) {
        const answer = await live.ask(path, { method: 'POST', body })
        const [limit, remaining, , policy] = limitsOf(answer)
        expect([path, limit, policy]).toEqual([path, '100', '100;w=1, 1000;w=60'])
        expect(Number(remaining)).toBeLessThan(100)
      }
    })

  it(proves('of one organization are not touched by one that has used up its own'), async () => {
    const [loud, quiet] = [await newCustomer(), await newCustomer()]
    const startedAt = Date.now()
    const admitted = await untilThrottled(loud.live)
    const [flood, calm] = await Promise.all([
      Promise.all(Array.from({ length: 200 }, () => loud.live.ask('/jobs', { body: '{' }))),
      Promise.all(Array.from({ length: 8 }, () =>
        quiet.live.ask('/jobs', { body: { service, inputs: ['x'] } }))),
    ])
    expect(flood.some(({ code }) => code === 'rate_limited')).toBe(true)
    expect(calm.map(({ status }) => status)).toEqual(Array(8).fill(202))
    const through = admitted + flood.filter(({ code }) => code === 'invalid_json').length
    expect(through).toBeGreaterThanOrEqual(100)
    expect(through).toBeLessThanOrEqual(100 + 100 * (Date.now() - startedAt) / 1_000 + 1)
    const refused = flood.find(({ code }) => code === 'rate_limited')
    expect([refused?.status, Number(refused?.headers.get('retry-after')) >= 1]).toEqual([429, true])
  })
})
