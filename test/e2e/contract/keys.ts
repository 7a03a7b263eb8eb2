import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { accountKey } from '../../../services/accounts/records.ts'
import type { Scope } from '../../../services/accounts/api-keys.ts'
import { eventually } from '../../support/eventually.ts'
import { ask, ended, newCustomer, newNumbers, service, shared, workspace } from './support.ts'
import { commandOn } from '../../support/admin.ts'

const createKey = commandOn('key create')
const listApiKeys = commandOn('key list')
const revokeKey = commandOn('key revoke')
const rollKey = commandOn('key roll')
const policy = commandOn('policy')

type Shown = Readonly<Record<string, string>>
const codeOf = async (key: string) => (await ask('/balance', { key })).code
const make = (org: string, more: Readonly<Record<string, string>> = {}) =>
  workspace(parts => createKey(parts, { org, mode: 'live', ...more })) as Promise<Shown>

/** How long a key may stay cached. */
const CACHED_MS = 1_000

/** Makes the end of a key come an hour sooner, and waits until it is refused. */
async function untilExpired ({ secret = '' }: Shown): Promise<void> {
  const hash = createHash('sha256').update(secret).digest('hex')
  await shared().redis.hincrby(accountKey(`key:${hash}`), 'expiresAt', -3_600_000)
  await eventually(async () => expect(await codeOf(secret)).toBe('expired_key'))
}

describe.concurrent('an API key', () => {
  it('reaches with a narrow scope nothing else, and works only from its networks', async () => {
    const { orgId } = await newCustomer()
    const usage = await make(orgId, { scopes: 'usage:read', name: 'Controlling' })
    const job = await ask('/jobs/job_1', { key: usage.secret ?? '' })
    expect([await codeOf(usage.secret ?? ''), job.code]).toEqual([undefined, 'insufficient_scope'])
    const here = await make(orgId, { networks: '127.0.0.0/8' })
    const elsewhere = await make(orgId, { networks: '192.0.2.0/24,2001:db8::/32' })
    expect([await codeOf(here.secret ?? ''), await codeOf(elsewhere.secret ?? '')])
      .toEqual([undefined, 'address_not_allowed'])
    const used = async () => {
      const { keys } = await workspace(parts => listApiKeys(parts, { org: orgId }))
      return (keys as { name: string, lastUsedFrom: string }[]).find(({ name }) => name !== '')
    }
    await eventually(async () => expect(await used())
      .toMatchObject({ name: 'Controlling', lastUsedFrom: '127.0.0.1' }))
  })

  it('lives no longer than its organization allows', async () => {
    const { orgId } = await newCustomer()
    await workspace(parts => policy(parts, { org: orgId, keyDays: '7' }))
    await make(orgId)
    await expect(make(orgId, { expires: '2999-01-01T00:00:00Z' })).rejects.toThrow('7 days')
    const { keys } = await workspace(parts => listApiKeys(parts, { org: orgId }))
    const { expiresAt } = (keys as { expiresAt: string }[]).at(-1) ?? { expiresAt: '' }
    expect(Math.round((Date.parse(expiresAt) - Date.now()) / 86_400_000)).toBe(7)
  })

  it('is shown once, and one of several with scopes, expiry and last use', async () => {
    const { orgId, live } = await newCustomer()
    const reader = await make(orgId, { scopes: 'jobs:read' })
    const writer = await make(orgId, { scopes: 'jobs:write' })
    const post = async (key: string) =>
      (await ask('/jobs', { key, body: { service, inputs: ['x'] } })).code
    expect([await codeOf(reader.secret ?? ''), await post(reader.secret ?? '')])
      .toEqual([undefined, 'insufficient_scope'])
    expect([await codeOf(writer.secret ?? ''), await post(writer.secret ?? '')])
      .toEqual(['insufficient_scope', undefined])
    expect(await codeOf(live.key)).toBe(undefined)
    const expires = new Date(Date.now() + 3_600_000).toISOString()
    const brief = await make(orgId, { expires })
    expect(brief.secret).toMatch(/^vj_live_[0-9A-Za-z]{36}$/)
    expect(await codeOf(brief.secret ?? '')).toBe(undefined)
    const unused = async () => {
      const { keys } = await workspace(parts => listApiKeys(parts, { org: orgId }))
      expect(JSON.stringify(keys)).not.toContain(brief.secret?.slice(0, 20))
      return (keys as { mode: string, lastUsedAt: string | null }[])
        .filter(key => key.lastUsedAt === null).map(key => key.mode)
    }
    await eventually(async () => expect(await unused()).toEqual(['test']))
    await untilExpired(brief)
  })

  it('needs jobs:write for what changes something, jobs:read for the rest', async () => {
    const { orgId } = await newCustomer()
    const job = '/jobs/job_01jd3v8zj7m5n2k4q6r8s0t1w3'
    const endpoints = '/webhook-endpoints'
    const routes: readonly (readonly [string, string, Scope])[] = [
      ['POST', '/jobs', 'jobs:write'], ['POST', '/quotes', 'jobs:write'],
      ['POST', `${job}/cancel`, 'jobs:write'],
      ['POST', `${job}/deliveries/evt_1/resend`, 'jobs:write'],
      ['GET', '/jobs', 'jobs:read'], ['GET', job, 'jobs:read'],
      ['GET', `${job}/results`, 'jobs:read'], ['GET', `${job}/deliveries`, 'jobs:read'],
      ['GET', '/balance', 'jobs:read'], ['GET', '/services', 'jobs:read'],
      ['GET', endpoints, 'jobs:read'], ['POST', endpoints, 'jobs:write'],
      ['GET', `${endpoints}/we_1`, 'jobs:read'], ['PATCH', `${endpoints}/we_1`, 'jobs:write'],
      ['DELETE', `${endpoints}/we_1`, 'jobs:write'],
      ['GET', `${endpoints}/we_1/deliveries`, 'jobs:read'],
      ['POST', `${endpoints}/we_1/rotate-secret`, 'jobs:write'],
    ]
    for (const scopes of ['jobs:read', 'jobs:write']) {
      const { secret: key } = await make(orgId, { scopes })
      for (const [method, path, scope] of routes) {
        const { status } = await ask(path, { method, ...(key === undefined ? {} : { key }) })
        expect([method, path, scopes, status === 403])
          .toEqual([method, path, scopes, scope !== scopes])
      }
    }
  })

  it('that is rolled works during its grace, and not after it', async () => {
    const { orgId } = await newCustomer()
    const old = await make(orgId)
    expect(await codeOf(old.secret ?? '')).toBe(undefined)
    const fresh = await workspace(parts => rollKey(parts, {
      org: orgId, key: old.id ?? '', graceHours: '1',
    })) as Shown
    expect([await codeOf(fresh.secret ?? ''), await codeOf(old.secret ?? '')])
      .toEqual([undefined, undefined])
    await untilExpired(old)
    expect(await codeOf(fresh.secret ?? '')).toBe(undefined)
  })

  it('that is revoked has stopped working a second later', async () => {
    const { orgId } = await newCustomer()
    const key = await make(orgId)
    expect(await codeOf(key.secret ?? '')).toBe(undefined)
    await workspace(parts => revokeKey(parts, { org: orgId, key: key.id ?? '' }))
    await delay(CACHED_MS)
    expect(await codeOf(key.secret ?? '')).toBe('revoked_key')
  })
})

describe('a test key', () => {
  it('pays nothing, and has jobs, cache and balance of its own', async () => {
    const { live, test } = await newCustomer()
    const inputs = newNumbers(2)
    const paid = await ended(live, { service, inputs })
    const free = await ended(test, { service, inputs })
    expect(free.created.preflight).toMatchObject({ cacheHits: 0, maxQuoteMicros: 0 })
    expect([paid.job.chargedMicros, free.job.chargedMicros]).toEqual([4_000, 0])
    expect(await test.client.balance()).toMatchObject({ balanceMicros: 0, availableMicros: 0 })
    expect((await test.client.jobsPage()).data.map(({ id }) => id)).toEqual([free.job.id])
    for (const path of ['', '/results', '/deliveries']) {
      expect((await test.ask(`/jobs/${paid.job.id}${path}`)).code).toBe('job_not_found')
      expect((await live.ask(`/jobs/${free.job.id}${path}`)).code).toBe('job_not_found')
    }
  })

  it('is answered by the sandbox alone, the same every time', async () => {
    const { test } = await newCustomer()
    const { vendor } = shared()
    await vendor.behave('well')
    const inputs = ['+12127360001', '+12127360002', '+12127360007', '+12127360008']
    const wanted = { service: 'whatsapp', inputs, forceFresh: true }
    const verdicts = async () => (await ended(test, wanted)).rows
      .map(row => [row.status, row.reason, row.whatsapp].join(' '))
    const first = await verdicts()
    expect(first).toEqual([
      'invalid unassigned_range false', 'risky line_disconnected true',
      'invalid not_registered false', 'valid registered true',
    ])
    expect(await verdicts()).toEqual(first)
    expect((await vendor.state()).calls).toBe(0)
  })

  it('gets 402 for a sandbox input', async () => {
    const { live, test } = await newCustomer()
    for (const [slug, input] of [
      ['phone-validation', '+1 500-555-0402'], ['email-validation', 'insufficient_balance@x.org'],
    ] as const) {
      const body = { service: slug, inputs: [input, 'x'] }
      for (const path of ['/jobs', '/quotes']) {
        const { status, json } = await test.ask(path, { body })
        expect([status, json.error]).toMatchObject([402, {
          code: 'insufficient_balance', availableMicros: 0, requiredMicros: expect.any(Number),
        }])
      }
      expect((await live.ask('/jobs', { body })).status).toBe(202)
    }
  })
})
