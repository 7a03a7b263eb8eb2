import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import type { AccessEvent } from '../../../services/access-log/entry.ts'
import { recordRequests } from '../../../services/access-log/requests.ts'

class RefusedError extends Error {}

/** An application with some routes; `log` has what was recorded and done, in order. */
function createApp () {
  const log: (AccessEvent | string)[] = []
  let isDown = false
  const app = Fastify()
  recordRequests(app, {
    log: {
      append: async event => {
        if (isDown) throw new Error('down')
        log.push(event)
      },
    },
    actions: {
      'POST /keys/:key': 'key.revoked', 'GET /file/:id': 'results.downloaded', 'POST /': null,
    },
    requesterOf: ({ headers }) => headers['x-user'] === undefined
      ? undefined
      : { organization: 'org_1', actor: { kind: 'person', id: String(headers['x-user']) } },
    isRefusal: error => error instanceof RefusedError,
    isExempt: ({ query }) => (query as { readonly page?: string }).page !== undefined,
  })
  app.addHook('onRequest', async ({ headers }) => {
    if (headers['x-refused'] !== undefined) throw new RefusedError()
  })
  const routes = [['POST', '/keys/:key'], ['GET', '/file/:id'], ['POST', '/']] as const
  for (const [method, url] of routes) {
    app.route({
      method,
      url,
      handler: async () => {
        log.push(`${method} done`)
        return 'done'
      },
    })
  }
  const send = async (
    method: 'GET' | 'POST', url: string, headers: Record<string, string> = { 'x-user': 'ann' }
  ) => (await app.inject({ method, url, headers, remoteAddress: '::ffff:192.0.2.7' })).statusCode
  return { log, send, fail: () => { isDown = true } }
}

const entry = (action: string, target: string, outcome = 'done') => ({
  organization: 'org_1',
  actor: { kind: 'person', id: 'ann' },
  action,
  outcome,
  target,
  address: '192.0.2.7',
})

describe('requests', () => {
  it('are recorded before they are handled, with the id in their path', async () => {
    const { log, send } = createApp()
    expect(await send('POST', '/keys/key_1')).toBe(200)
    expect(await send('GET', '/file/job_1')).toBe(200)
    expect(log).toEqual([
      entry('key.revoked', 'key_1'), 'POST done', entry('results.downloaded', 'job_1'), 'GET done',
    ])
  })

  it('are not handled when their entry is not stored', async () => {
    const { log, send, fail } = createApp()
    fail()
    expect(await send('POST', '/keys/key_1')).toBe(500)
    expect(log).toEqual([])
  })

  it('are recorded as refused when the right is missing, and refused in any case', async () => {
    const { log, send, fail } = createApp()
    const refused = { 'x-user': 'ann', 'x-refused': '1' }
    expect(await send('POST', '/keys/key_1', refused)).toBe(500)
    expect(log).toEqual([entry('key.revoked', 'key_1', 'refused')])
    fail()
    expect(await send('POST', '/keys/key_1', refused)).toBe(500)
    expect(log).toHaveLength(1)
  })

  it('are not recorded without an action or a requester, or if they are exempt', async () => {
    const { log, send } = createApp()
    await send('POST', '/')
    await send('GET', '/file/job_1?page=2')
    await send('GET', '/file/job_1', {})
    expect(log).toEqual(['POST done', 'GET done', 'GET done'])
  })
})
