import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createRestClients } from '../../../services/page/rest-clients.ts'
import { emptyRedis, workerRedis as redis } from '../../support/redis/worker.ts'

beforeEach(emptyRedis)
afterEach(() => { vi.unstubAllGlobals() })

function open () {
  const clock = { ms: 0 }
  const apiUrl = 'http://127.0.0.1:1/api/v1'
  return { clients: createRestClients({ redis, apiUrl, now: () => clock.ms }), clock }
}

/** The names of all API keys. */
const keys = () => redis.keys('{global}:key:*')

const live = { orgId: 'org_1', mode: 'live' } as const

describe('the API keys of the page server', () => {
  it('are one per tenant, expire after ten minutes and are in no list', async () => {
    const { clients } = open()
    const [one, same] = await Promise.all([clients.of(live), clients.of(live)])
    expect([one === same, await clients.of(live) === same]).toEqual([true, true])
    const [key = '', ...more] = await keys()
    expect([key, more]).toEqual([expect.stringMatching(/^\{global\}:key:[0-9a-f]{64}$/), []])
    expect(await redis.hgetall(key)).toMatchObject({
      org: 'org_1', mode: 'live', scopes: 'jobs:write jobs:read', expiresAt: '600000',
    })
    expect(await redis.pttl(key)).toBeGreaterThan(300_000)
    expect(await redis.pttl(key)).toBeLessThanOrEqual(600_000)
    expect(await createApiKeys(redis).list('org_1')).toEqual([])
    await clients.of({ orgId: 'org_1', mode: 'test' })
    const modes = await Promise.all((await keys()).map(name => redis.hget(name, 'mode')))
    expect(modes.toSorted()).toEqual(['live', 'test'])
  })

  it('are renewed before they expire, and deleted when the process stops', async () => {
    const { clients, clock } = open()
    const first = await clients.of(live)
    const before = await keys()
    clock.ms = 419_999
    expect(await clients.of(live)).toBe(first)
    clock.ms = 420_000
    expect(await clients.of(live)).not.toBe(first)
    expect(await keys()).toHaveLength(2)
    await clients.close()
    expect(await keys()).toEqual(before)
  })

  it('are replaced once the REST interface does not know them, which is asked over HTTPS',
    async () => {
      const answers = [Response.json({}), Response.json({ error: {} }, { status: 401 })]
      const headers: unknown[] = []
      vi.stubGlobal('fetch', async (_url: string, init: RequestInit) => {
        headers.push(init.headers)
        return answers.shift()
      })
      const { clients } = open()
      const client = await clients.of(live)
      await client.balance()
      expect(await clients.of(live)).toBe(client)
      await expect(client.balance()).rejects.toThrow()
      expect(await clients.of(live)).not.toBe(client)
      expect(await keys()).toHaveLength(2)
      expect(headers[0]).toEqual({
        authorization: expect.stringMatching(/^Bearer vj_live_/), 'x-forwarded-proto': 'https',
      })
    })
})
