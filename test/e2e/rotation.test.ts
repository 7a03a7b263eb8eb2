import { spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { jobKeys } from '../../services/jobs/redis-keys.ts'
import { kidOf } from '../../services/crypto/key-ring.ts'
import { connectRedis } from '../../services/platform/redis.ts'
import { withWorkspace } from '../../services/workspace/deps.ts'
import type { RewrapReport, KeyReport } from '../../services/workspace/key-rotation.ts'
import { untilConsumed } from '../support/offsets.ts'
import { createTestPartner, feedContacts, type TestPartner } from '../support/partner.ts'
import { endSharedServices, startAll, type RunningServices } from '../support/services.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import {
  runJob, startEnvironment, type Finished, type Environment,
} from '../support/environment.ts'
import { stackEnv } from '../support/stack.ts'

type Secrets = Readonly<Record<'KEY_RING' | 'KEY_ACTIVE' | 'CACHE_SECRETS' | 'CACHE_SECRET_ACTIVE',
  string>>

const env = stackEnv() as Record<string, string> & Secrets
const redis = connectRedis(env['REDIS_STATE_URL'] ?? '')
const { workspace, close } = openWorkspaceCommands(env)
const secret = () => randomBytes(32).toString('base64')
const own = { ring: { k2: secret() }, cache: { 2: secret() } }
const added = {
  KEY_RING: JSON.stringify({ ...JSON.parse(env.KEY_RING), ...own.ring }),
  CACHE_SECRETS: JSON.stringify({ ...JSON.parse(env.CACHE_SECRETS), ...own.cache }),
}
/** Every process has the new keys, and goes over to them in its own time; then the old ones go. */
const before: Secrets = { ...env, ...added }
const after: Secrets = { ...before, KEY_ACTIVE: 'k2', CACHE_SECRET_ACTIVE: '2' }
const alone: Secrets = {
  ...after, KEY_RING: JSON.stringify(own.ring), CACHE_SECRETS: JSON.stringify(own.cache),
}

const phones = Array.from({ length: 20 }, (_, index) => `+1212738${1_000 + index}`)
const request = { service: 'phone-validation', inputs: phones, metadata: { campaign: 'spring' } }
const contacts = phones.slice(0, 3)
  .map(input => ({ input, reference: undefined, countryCode: undefined }))

/** The stages of these jobs; no other one is used before the old keys are removed. */
const STAGES = ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger']

let environment: Environment
let partner: TestPartner
let further: RunningServices | undefined
let old: Finished
beforeAll(async () => {
  environment = await startEnvironment({ ...before }, { stages: STAGES })
  partner = await createTestPartner(env, { usd: '1' })
})
afterAll(async () => {
  // A later ledger would copy data keys that "k2" wraps to ClickHouse after the rewrap.
  await untilConsumed(env, { stage: 'ledger' })
  await further?.stop()
  await environment.stop()
  // Others read this stack with the old key alone.
  await workspace(before, 'keys', 'rewrap')
  redis.disconnect()
  close()
})

const clientOf = (services: RunningServices | undefined, mode: 'live' | 'test' = 'live') =>
  environment.clientAt(services?.baseUrl ?? '', mode)

const kidOfJob = async (job: string) => kidOf(
  await redis.getBuffer(jobKeys(`${environment.orgId}.live`, job).dataKey) ?? Buffer.alloc(0))

const statesOf = (finished: Finished) =>
  finished.rows.map(({ input, status, line_type: kind }) => [input, status, kind])

const showSecret = (secrets: Secrets) => withWorkspace({ ...env, ...secrets }, parts =>
  parts.webhookSecrets.show(environment.orgId))

describe('new keys that are active in some processes before others', () => {
  it('wrap what is new, and neither records nor requests are forgotten', async () => {
    old = await runJob(environment.live, request)
    further = await startAll({ env, stages: ['ingest'], overrides: { ...after } })
    const fresh = await runJob(clientOf(further), request)
    expect([await kidOfJob(old.created.id), await kidOfJob(fresh.created.id)]).toEqual(['k1', 'k2'])
    expect([old.job.cacheHits, fresh.job.cacheHits, fresh.job.chargedMicros]).toEqual([0, 20, 0])
    expect(statesOf(fresh)).toEqual(statesOf(old))
    expect((await environment.live.job(fresh.created.id)).metadata).toEqual(request.metadata)
    expect((await clientOf(further).job(old.created.id)).metadata).toEqual(request.metadata)

    const key = crypto.randomUUID()
    const first = await environment.live.createJob(request, key)
    expect((await clientOf(further).createJob(request, key)).id).toBe(first.id)
  })

  it('let two jobs check a contact once, one by the old and one by the new', async () => {
    // The check of one of them takes two seconds, so both jobs are under way at the same time.
    const inputs = ['+12127390004', '+12127391001', '+12127391002']
    const both = [clientOf(environment.services, 'test'), clientOf(further, 'test')]
    const done = await Promise.all(both.map(client => runJob(client, { ...request, inputs })))
    for (const [row] of inputs.entries()) {
      const sources = done.map(({ rows }) => rows[row]?.['source'])
      expect(sources.toSorted()).toEqual(['cache', 'live'])
    }
  })
})

describe('old keys', () => {
  it('are named in the error when they are removed while still needed', async () => {
    const stock = await workspace<KeyReport>(alone, 'keys', 'list')
    expect(process.exitCode).toBe(1)
    process.exitCode = undefined
    expect(stock.lacking).toEqual(['k1'])
    expect(stock.keys.find(({ kid }) => kid === 'k1')?.wraps).toMatchObject({
      jobKeys: expect.any(Number), partnerKeys: expect.any(Number), requestSecrets: 1,
    })
    const { status, stdout } = spawnSync(process.execPath, ['services/ingest/main.ts'], {
      env: { ...process.env, ...env, ...alone, PORT_HTTP: '0' }, encoding: 'utf8', timeout: 240_000,
    })
    expect(status).not.toBe(0)
    expect(stdout).toContain('KEY_RING lacks key \\"k1\\"')
    expect(stdout).toContain('request-secret')
  })

  it('may be removed once everything is rewrapped, and all still works', async () => {
    const webhookSecret = await showSecret(before)
    await untilConsumed(env, { stage: 'ledger' })
    await further?.stop()
    await environment.services.stop()
    await endSharedServices()
    const done = await workspace<RewrapReport>(after, 'keys', 'rewrap')
    expect(done).toMatchObject({ lacking: [], broken: 0, missed: 0 })
    expect(done.rewrapped).toBeGreaterThan(4)
    expect(done.keys.find(({ kid }) => kid === 'k1')).toMatchObject({ inRing: true, isFree: true })
    expect((await workspace<KeyReport>(alone, 'keys', 'list')).lacking).toEqual([])

    further = await startAll({
      env, stages: [...STAGES, 'feed', 'publish'], overrides: { ...alone },
    })
    const client = clientOf(further)
    const { id } = old.created
    expect(await client.job(id)).toEqual(old.job)
    expect((await client.results(id)).includes(phones[0] ?? '')).toBe(true)
    expect(await showSecret(alone)).toBe(webhookSecret)
    const fed = await feedContacts(partner, contacts)
    expect(fed.results).toHaveLength(contacts.length)

    // Once their copies for jobs under way have gone, too, the old records are misses, no worse.
    const cache = connectRedis(env['REDIS_CACHE_URL'] ?? '')
    const copies = await cache.keysBuffer(environment.cacheNames('2'))
    expect(await cache.del(...copies)).toBe(20)
    expect(await cache.keysBuffer(environment.cacheNames('1'))).toHaveLength(20)
    cache.disconnect()
    const again = await runJob(client, request)
    expect([again.job.status, again.job.cacheHits, again.job.freshRecords])
      .toEqual(['completed', 0, 20])
    expect((await runJob(client, request)).job.cacheHits).toBe(20)
  })
})
