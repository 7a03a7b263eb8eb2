import { describe, expect, it } from 'vitest'
import { eventually } from '../../support/eventually.ts'
import { sumOf } from '../../support/metrics.ts'
import { ended, newCustomer, newNumbers, service, shared, workspace, type Customer }
  from './support.ts'

const BURST = 100
const free = { service, inputs: ['call me'] }

const statusesOf = (answers: readonly { readonly status: number }[]) =>
  answers.map(({ status }) => status)
const headerOf = (answers: readonly { readonly headers: Headers }[], name: string) =>
  answers.map(({ headers }) => headers.get(name))

/** A customer whose contract is about two POST requests a minute, and 150 GET requests a second. */
async function smallCustomer (): Promise<Customer> {
  const customer = await newCustomer()
  await workspace(({ organizations }) =>
    organizations.setPolicy(customer.orgId, { postSustained: 2, gets: 150 }))
  await eventually(async () =>
    expect(headerOf([await customer.live.ask('/balance')], 'ratelimit-limit')).toEqual(['150']))
  return customer
}

/**
 * What was asked while the limits that all instances share decided. When Redis has answered late,
 * as on a busy machine, those of one instance decide for a second, and both have counted a part.
 */
async function onSharedLimits<T> (ask: () => Promise<T>): Promise<T> {
  const decidedAlone = () => sumOf(shared().environment.services.list(), 'limits_local_total')
  for (;;) {
    const before = await decidedAlone()
    const answer = await ask()
    if (await decidedAlone() === before) return answer
  }
}

describe.concurrent('the request limits', () => {
  it.each([
    ['jobs of one row', 1, { path: '/jobs', status: 202 }],
    ['jobs of 1,000 rows', 1_000, { path: '/jobs', status: 202 }],
    ['quotes of 1,000 rows', 1_000, { path: '/quotes', status: 200 }],
  ])('admit a hundred %s at once', async (_, rows, { path, status }) => {
    const { live } = await newCustomer(1_000_000_000)
    const body = { service, inputs: rows === 1 ? ['call me'] : newNumbers(rows) }
    // Jobs of rows that are known take no slot of the ten active jobs; a quote never does.
    if (path === '/jobs') await ended(live, body)
    const answers = await Promise.all(Array.from({ length: BURST }, () =>
      live.ask(path, { body })))
    expect(statusesOf(answers)).toEqual(Array(BURST).fill(status))
    expect(new Set(answers.map(({ json }) => json.preflight.quoteId)).size).toBe(BURST)
    expect(headerOf(answers, 'retry-after')).toEqual(Array(BURST).fill('0'))
  })

  it('count live and test traffic together, and say in whole seconds when to come back',
    async () => {
      const answers = await onSharedLimits(async () => {
        const { live, test } = await smallCustomer()
        return [await live.ask('/jobs', { body: free }), await test.ask('/jobs', { body: '{' }),
          await live.ask('/quotes', { body: free }), await test.ask('/jobs', { body: free })]
      })
      expect(statusesOf(answers)).toEqual([202, 400, 429, 429])
      expect(headerOf(answers, 'ratelimit-limit')).toEqual(Array(4).fill('2'))
      expect(headerOf(answers, 'ratelimit-remaining')).toEqual(['1', '0', '0', '0'])
      expect(headerOf(answers, 'ratelimit-policy')).toEqual(Array(4).fill('100;w=1, 2;w=60'))
      // A token comes every 30 seconds, and the bucket is full after a minute.
      const [wait = 0, reset = 0] = ['retry-after', 'ratelimit-reset']
        .map(name => Number(answers[2]?.headers.get(name)))
      expect([wait >= 1 && wait <= 30, reset > 30 && reset <= 60]).toEqual([true, true])
    })

  it('are in every authenticated response, refusals too', async () => {
    const { live } = await newCustomer(1_999)
    const body = { service, inputs: newNumbers(1) }
    const answers = await Promise.all([
      live.ask('/balance'), live.ask('/jobs'), live.ask('/jobs?limit=0'), live.ask('/jobs/job_1'),
      live.ask('/jobs', { body: 'a=b', headers: { 'content-type': 'text/plain' } }),
      live.ask('/jobs', { body: '{' }), live.ask('/jobs', { body: { ...body, service: 'fax' } }),
      live.ask('/jobs', { body, headers: { 'idempotency-key': 'one' } }),
      live.ask('/jobs', { body }), live.ask('/jobs', { body: free }),
      live.ask('/quotes', { body }), live.ask('/nothing'), live.ask('/jobs', { method: 'PUT' }),
    ])
    expect(statusesOf(answers))
      .toEqual([200, 200, 400, 404, 415, 400, 400, 400, 402, 202, 200, 404, 405])
    for (const { status, headers } of answers) {
      const [limit = -1, remaining = -1, reset, retryAfter] =
        ['ratelimit-limit', 'ratelimit-remaining', 'ratelimit-reset', 'retry-after']
          .map(name => Number(headers.get(name) ?? NaN))
      expect([status, Number.isInteger(reset), retryAfter]).toEqual([status, true, 0])
      expect([100, 200]).toContain(limit)
      expect(remaining >= 0 && remaining <= limit).toBe(true)
    }
  })

  it('count quotes, cancels and resends among the POST requests, cached rows as well', async () => {
    const body = { service, inputs: newNumbers(1) }
    const posts: readonly (readonly [string, object | undefined])[] = [
      ['/jobs', body], ['/quotes', body], ['/jobs/{id}/cancel', undefined],
      ['/jobs/{id}/deliveries/evt_1/resend', undefined],
    ]
    await Promise.all(posts.map(async ([path, sent]) => {
      const { orgId, live } = await newCustomer()
      const { job } = await ended(live, body)
      await workspace(({ organizations }) => organizations.setPolicy(orgId, { postSustained: 2 }))
      const answer = () => live.ask(path.replace('{id}', job.id), { method: 'POST', body: sent })
      await eventually(async () => expect((await answer()).code).toBe('rate_limited'))
      expect((await answer()).headers.get('ratelimit-policy')).toBe('100;w=1, 2;w=60')
    }))
  })
})
