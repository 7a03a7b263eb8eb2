import { afterEach, describe, expect, it, vi } from 'vitest'
import { createRestClients } from '../../../services/page/rest-clients.ts'

function at () {
  const written: { readonly key: string, readonly fields: Record<string, string> }[] = []
  const deleted: string[] = []
  const lives: number[] = []
  const redis = {
    hset: async (key: string, fields: Record<string, string>) => { written.push({ key, fields }) },
    pexpire: async (_key: string, lifeMs: number) => { lives.push(lifeMs) },
    del: async (key: string) => { deleted.push(key) },
  }
  const clock = { ms: 0 }
  const clients = createRestClients({
    redis: redis as never, apiUrl: 'http://127.0.0.1:1/api/v1', now: () => clock.ms,
  })
  return { clients, written, deleted, lives, clock }
}

const live = { orgId: 'org_1', mode: 'live' } as const

describe('the API keys of the page server', () => {
  it('are one per tenant, expire after ten minutes and are in no list', async () => {
    const { clients, written, lives } = at()
    const [one, same] = await Promise.all([clients.of(live), clients.of(live)])
    expect(await clients.of(live)).toBe(same)
    expect([one === same, written.length]).toEqual([true, 1])
    expect(written[0]?.key).toMatch(/^\{global\}:key:[0-9a-f]{64}$/)
    expect(written[0]?.fields).toMatchObject({
      org: 'org_1', mode: 'live', scopes: 'jobs:write jobs:read', expiresAt: '600000',
    })
    expect(new Set(lives)).toEqual(new Set([600_000]))
    await clients.of({ orgId: 'org_1', mode: 'test' })
    expect(written.at(-1)?.fields.mode).toBe('test')
  })

  it('are renewed before they expire, and deleted when the process stops', async () => {
    const { clients, written, deleted, clock } = at()
    const first = await clients.of(live)
    clock.ms = 419_999
    expect(await clients.of(live)).toBe(first)
    clock.ms = 420_000
    const second = await clients.of(live)
    expect(second).not.toBe(first)
    await clients.close()
    expect(deleted).toEqual([written.at(-1)?.key])
  })

  it('are replaced once the REST interface does not know them, which is asked over HTTPS',
    async () => {
      const answers = [Response.json({}), Response.json({ error: {} }, { status: 401 })]
      const headers: unknown[] = []
      vi.stubGlobal('fetch', async (_url: string, init: RequestInit) => {
        headers.push(init.headers)
        return answers.shift()
      })
      const { clients, written } = at()
      const client = await clients.of(live)
      await client.balance()
      expect(await clients.of(live)).toBe(client)
      await expect(client.balance()).rejects.toThrow()
      expect(await clients.of(live)).not.toBe(client)
      expect(written).toHaveLength(2)
      expect(headers[0]).toEqual({
        authorization: expect.stringMatching(/^Bearer vj_live_/), 'x-forwarded-proto': 'https',
      })
    })
})

afterEach(() => { vi.unstubAllGlobals() })
