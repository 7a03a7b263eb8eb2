import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { announceDeprecations } from '../../../services/ingest/response.ts'

const old = {
  since: new Date('2027-01-31T00:00:00Z'),
  until: new Date('2028-02-29T12:00:00Z'),
  guide: '/changelog#2027-01-31',
}

describe('a deprecated operation', () => {
  it('has deprecation headers in every response, and no other operation has', async () => {
    const app = Fastify()
    announceDeprecations(app)
    app.get('/jobs/:id', { config: { deprecation: old } }, async () => 'job')
    app.get('/jobs', async () => 'jobs')
    expect((await app.inject('/jobs/7')).headers).toMatchObject({
      deprecation: '@1801353600',
      sunset: 'Tue, 29 Feb 2028 12:00:00 GMT',
      link: '</changelog#2027-01-31>; rel="deprecation", </changelog#2027-01-31>; rel="sunset"',
    })
    const head = await app.inject({ method: 'HEAD', url: '/jobs/7' })
    expect(head.headers).toMatchObject({ deprecation: '@1801353600' })
    expect((await app.inject('/jobs')).headers).not.toHaveProperty('deprecation')
  })

  it('works for twelve months at least', () => {
    const until = new Date('2028-01-30T23:59:59Z')
    const app = Fastify()
    announceDeprecations(app)
    const config = { deprecation: { ...old, until } }
    expect(() => app.get('/jobs', { config }, async () => 'jobs')).toThrow(
      'sunset 2028-01-30T23:59:59.000Z is less than twelve months after the deprecation 2027-01-31')
  })
})
