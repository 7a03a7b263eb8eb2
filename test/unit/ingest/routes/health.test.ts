import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import { healthRoutes } from '../../../../services/ingest/routes/health.ts'

/** What both addresses answer while the process is in this state. */
async function answersWhen (ready: boolean): Promise<readonly unknown[]> {
  const app = Fastify()
  for (const route of healthRoutes({ ready: () => ready })) app.route(route)
  const answers = [await app.inject('/healthz'), await app.inject('/readyz')]
  return answers.map(answer => [answer.statusCode, answer.json().error?.message ?? answer.json()])
}

describe('the addresses for orchestrators', () => {
  it('tell that the process answers, and that it takes requests', async () => {
    expect(await answersWhen(true)).toEqual([[200, { status: 'ok' }], [200, { status: 'ready' }]])
  })

  it('tell apart a process that answers but can not take requests', async () => {
    expect(await answersWhen(false)).toEqual([[200, { status: 'ok' }], [503, 'Not ready yet.']])
  })

  it('need no key', () => {
    expect(healthRoutes({ ready: () => true }).map(({ method, url, config }) =>
      [method, url, config])).toEqual([
      ['GET', '/healthz', undefined], ['GET', '/readyz', undefined],
    ])
  })
})
