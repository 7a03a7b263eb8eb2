import { describe, expect, it } from 'vitest'
import { proves } from './rows.ts'
import { ended, newCustomer, newNumbers, service, workspace } from './support.ts'

describe('the request limits', () => {
  it(proves('count quotes, cancels and resends among the POST requests, cached rows as well'),
    async () => {
      const inputs = newNumbers(1)
      const body = { service, inputs }
      const posts: readonly (readonly [string, object | undefined])[] = [
        ['/jobs', body], ['/quotes', body], ['/jobs/{id}/cancel', undefined],
        ['/jobs/{id}/deliveries/evt_1/resend', undefined],
      ]
      for (const [path, sent] of posts) {
        const { orgId, live } = await newCustomer()
        const { job } = await ended(live, body)
        await workspace(({ organizations }) => organizations.setPolicy(orgId, { postSustained: 2 }))
        const answer = () => live.ask(path.replace('{id}', job.id), { method: 'POST', body: sent })
        await expect.poll(async () => (await answer()).code).toBe('rate_limited')
        expect((await answer()).headers.get('ratelimit-policy')).toBe('100;w=1, 2;w=60')
      }
    })
})
