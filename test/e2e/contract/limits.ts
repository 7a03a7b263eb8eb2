import { describe, expect, it } from 'vitest'
import { proves } from './rows.ts'
import { ended, newCustomer, newNumbers, service } from './support.ts'

describe('the request limits', () => {
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
        const { headers } = await live.ask(path, { method: 'POST', body })
        const [limit, policy] = ['limit', 'policy'].map(name => headers.get(`ratelimit-${name}`))
        expect([path, limit, policy]).toEqual([path, '100', '100;w=1, 1000;w=60'])
        expect(Number(headers.get('ratelimit-remaining'))).toBeLessThan(100)
      }
    })
})
