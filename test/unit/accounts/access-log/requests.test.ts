import Fastify from 'fastify'
import { describe, expect, it } from 'vitest'
import {
  type AccessEvent, describeAccess, recordRequests,
} from '../../../../services/accounts/access-log/access-log.ts'
import { readClientAddresses } from '../../../../services/runtime/platform/http-server.ts'
import { parseNetworks } from '../../../../services/runtime/platform/networks.ts'

class RefusedError extends Error {}

/** An application with some routes; `log` has what was recorded and done, in order. */
function createApp () {
  const log: (AccessEvent | string)[] = []
  let stored = Infinity
  let isShipped = false
  const app = Fastify()
  readClientAddresses(app, parseNetworks([]))
  recordRequests(app, {
    log: {
      append: async event => {
        if (stored-- <= 0) throw new Error('down')
        log.push(event)
        return event.entryId ?? ''
      },
      withdraw: async id => {
        const at = log.findIndex(item => typeof item === 'object' && item.entryId === id)
        if (!isShipped) log.splice(at, 1)
        return !isShipped
      },
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
  const routes = [
    ['POST', '/keys/:key', 'key.revoked'], ['GET', '/file/:id', 'results.downloaded'],
    ['POST', '/', null],
  ] as const
  for (const [method, url, records] of routes) {
    app.route({
      method,
      url,
      config: { records },
      handler: async (request, reply) => {
        const { status = '200', known } = request.query as Readonly<Record<string, string>>
        if (known !== undefined) describeAccess(request, JSON.parse(known) as object)
        log.push(`${method} done`)
        return reply.code(Number(status)).send('done')
      },
    })
  }
  const send = async (
    method: 'GET' | 'POST', url: string, headers: Record<string, string> = { 'x-user': 'ann' }
  ) => (await app.inject({ method, url, headers, remoteAddress: '::ffff:192.0.2.7' })).statusCode
  return {
    log,
    send,
    failAfter: (count: number) => { stored = count },
    ship: () => { isShipped = true },
  }
}

const refused = (action: string, target: string) => ({
  organization: 'org_1',
  actor: { kind: 'person', id: 'ann' },
  action,
  outcome: 'refused',
  target,
  address: '192.0.2.7',
})

/** The entries of an action that was handled, around what its handler did. */
const handled = (action: string, target: string, more: object = {}) => {
  const entryId = expect.stringMatching(/^[0-9a-f-]{36}$/) as string
  const resultId = expect.stringMatching(/^[0-9a-f-]{36}:result$/) as string
  const entry = refused(action, target)
  return [
    { ...entry, entryId, outcome: 'attempted' },
    action === 'key.revoked' ? 'POST done' : 'GET done',
    { ...entry, entryId: resultId, outcome: 'done', ...more },
  ]
}

describe('requests', () => {
  it('are recorded before and after they are handled, with the id in their path', async () => {
    const { log, send } = createApp()
    expect(await send('POST', '/keys/key_1')).toBe(200)
    expect(await send('GET', '/file/job_1')).toBe(200)
    expect(log).toEqual([
      ...handled('key.revoked', 'key_1'),
      ...handled('results.downloaded', 'job_1'),
    ])
    const [attempt, , result] = log as AccessEvent[]
    expect(result?.entryId).toBe(`${attempt?.entryId}:result`)
  })

  it.each([
    ['303', 'done'], ['404', 'refused'], ['409', 'refused'], ['500', 'failed'], ['503', 'failed'],
  ])('with status %s are recorded as %s', async (status, outcome) => {
    const { log, send } = createApp()
    expect(await send('POST', `/keys/key_1?status=${status}`)).toBe(Number(status))
    expect(log).toEqual(handled('key.revoked', 'key_1', { outcome }))
  })

  it('are recorded with what their handlers add', async () => {
    const { log, send } = createApp()
    const about = { target: 'key_2', details: { name: 'N' }, outcome: 'refused' }
    const known = encodeURIComponent(JSON.stringify(about))
    await send('POST', `/keys/key_1?known=${known}`)
    expect(log).toEqual(handled('key.revoked', 'key_1', about))
    // A failure stays one, whatever the handler said before.
    await send('POST', `/keys/key_1?status=500&known=${known}`)
    expect(log.at(-1)).toMatchObject({ outcome: 'failed' })
  })

  it.each([
    ['are answered though their result is not stored', 1, 200],
    ['are not handled when their entry is not stored', 0, 500],
  ])('%s', async (_, stored, status) => {
    const { log, send, failAfter } = createApp()
    failAfter(stored)
    expect(await send('POST', '/keys/key_1')).toBe(status)
    expect(log).toEqual(handled('key.revoked', 'key_1').slice(0, 2 * stored))
  })

  it('that are refused are recorded once a minute for each actor and action', async () => {
    const { log, send } = createApp()
    const headers = { 'x-user': 'ann', 'x-refused': '1' }
    for (const key of ['key_1', 'key_2', 'key_3']) await send('POST', `/keys/${key}`, headers)
    await send('GET', '/file/job_1', headers)
    await send('POST', '/keys/key_1', { ...headers, 'x-user': 'bob' })
    expect(log).toEqual([
      refused('key.revoked', 'key_1'),
      refused('results.downloaded', 'job_1'),
      { ...refused('key.revoked', 'key_1'), actor: { kind: 'person', id: 'bob' } },
    ])
    // The same for what the right allows has both its entries.
    await send('POST', '/keys/key_1')
    expect(log.slice(3)).toEqual(handled('key.revoked', 'key_1'))
  })

  it('that their handlers refuse are kept once a minute for each actor and action', async () => {
    const { log, send, ship } = createApp()
    for (const job of ['job_1', 'job_2', 'job_3']) await send('GET', `/file/${job}?status=404`)
    await send('POST', '/keys/key_1?status=409')
    const entries = () => log.filter(item => typeof item === 'object')
      .map(({ action, target, outcome }) => `${action} ${target} ${outcome}`)
    const first = [
      'results.downloaded job_1 attempted', 'results.downloaded job_1 refused',
      'key.revoked key_1 attempted', 'key.revoked key_1 refused',
    ]
    expect(entries()).toEqual(first)
    expect(log.filter(item => item === 'GET done')).toHaveLength(3)
    // What is done keeps both of its entries, and what was shipped gets its result.
    await send('GET', '/file/job_4')
    ship()
    await send('GET', '/file/job_5?status=404')
    expect(entries().slice(first.length)).toEqual([
      'results.downloaded job_4 attempted', 'results.downloaded job_4 done',
      'results.downloaded job_5 attempted', 'results.downloaded job_5 refused',
    ])
  })

  it('are not recorded without an action or a requester, or if they are exempt', async () => {
    const { log, send } = createApp()
    await send('POST', '/')
    await send('GET', '/file/job_1?page=2')
    await send('GET', '/file/job_1', {})
    expect(log).toEqual(['POST done', 'GET done', 'GET done'])
  })
})
