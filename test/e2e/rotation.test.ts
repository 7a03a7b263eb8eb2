import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { createClient } from '../../services/client/client.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import type { KeyReport, RewrapReport } from '../../services/admin/key-rotation.ts'
import { eventually } from '../support/eventually.ts'
import { untilConsumed } from '../support/kafka/offsets.ts'
import { createTestPartner, feedContacts } from '../support/feeds/partner.ts'
import { endSharedServices, startAll, type RunningServices } from '../support/stacks/services.ts'
import { createOrganizationWith } from '../support/organizations.ts'
import { openWorkspaceCommands } from '../support/workspace.ts'
import { runJob, startEnvironment, type Finished } from '../support/stacks/environment.ts'
import { stackEnv } from '../support/stacks/stack.ts'
import {
  OrganizationKeyStore, wrappingKeyId,
} from '../../services/accounts/organization-keys.ts'
import {
  processesWithout, readRootKeyHolders, readRootId,
} from '../../services/runtime/crypto/root-keys.ts'
import { splitJobKey } from '../../services/jobs/job-keys.ts'
import { ROOT_KEY_NAMES } from '../support/keys/organization-keys.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'

type Settings = Readonly<Record<string, string>>

/**
 * The settings of a rotation from the keys of a stack to new ones, of all root keys and the cache
 * secret: `before` has both and uses the old ones, `after` uses the new ones, `alone` has no other.
 */
function rotationOf (env: Settings) {
  const newKeys = Object.fromEntries([...ROOT_KEY_NAMES, 'CACHE_SECRETS'].map(name =>
    [name, { 2: randomBytes(32).toString('base64') }]))
  const withKeys = (change: (name: string) => object): Settings => Object.fromEntries(
    Object.keys(newKeys).map(name => [name, JSON.stringify(change(name))]))
  const active = Object.fromEntries([
    ...ROOT_KEY_NAMES.map(name => [`${name.slice(0, -1)}_ACTIVE`, '2']),
    ['CACHE_SECRET_ACTIVE', '2'],
  ])
  const before: Settings =
    { ...env, ...withKeys(name => ({ ...JSON.parse(env[name] ?? ''), ...newKeys[name] })) }
  const after: Settings = { ...before, ...active }
  const alone: Settings = { ...after, ...withKeys(name => newKeys[name] ?? {}) }
  return { before, after, alone }
}

/**
 * The version that wraps the data key of a job, and the id of the root key that wraps that version.
 */
async function keysOfJob (
  redis: ReturnType<typeof openRedis>, orgId: string, job: string
): Promise<readonly [version: string, root: string]> {
  const wrapped = await redis.getBuffer(jobRedisKeys(`${orgId}.live`, job).dataKey)
  const id = wrappingKeyId(splitJobKey(wrapped ?? Buffer.alloc(0)).results)
  const keys = await new OrganizationKeyStore(redis).read(orgId)
  const key = keys.find(one => one.class === 'results' && id === `results.${one.version}`)
  return [id, readRootId(key?.wrapped ?? Buffer.alloc(0))]
}

const env = stackEnv() as Settings
const redis = closeAfterAll(openRedis(env['REDIS_STATE_URL'] ?? ''))
const { workspace } = openWorkspaceCommands(env)
/** Every process gets new keys, and activates them in its own time; then the old ones go. */
const { before, after, alone } = rotationOf(env)

const phones = Array.from({ length: 20 }, (_, index) => `+1212738${1_000 + index}`)
const request = { service: 'phone-validation', inputs: phones, metadata: { campaign: 'spring' } }
const contacts = phones.slice(0, 3)
  .map(input => ({ input, reference: undefined, countryCode: undefined }))

/** The stages of these jobs; no other one is used before the old keys are removed. */
const STAGES = ['ingest', 'normalize', 'lookup', 'verify', 'settle', 'ledger']

const environment = await startEnvironment({ ...before }, { stages: STAGES })
const partner = await createTestPartner(env, { usd: '1' })
let further: RunningServices | undefined
let old: Finished
afterAll(async () => {
  // A later ledger would copy data keys that "k2" wraps to ClickHouse after the rewrap.
  await untilConsumed(env, { stage: 'ledger' })
  await further?.stop()
  await environment.stop()
  // Others read this stack with the old key alone.
  await workspace(before, 'keys', 'rewrap')
})

const clientOf = (services: RunningServices | undefined, mode: 'live' | 'test' = 'live') =>
  environment.clientAt(services?.baseUrl ?? '', mode)

const statesOf = (finished: Finished) =>
  finished.rows.map(({ input, status, line_type: kind }) => [input, status, kind])

const showSecret = (secrets: Settings) => withWorkspace({ ...env, ...secrets }, parts =>
  parts.webhookSecrets.show(environment.orgId))

describe('new keys that are active in some processes before others', () => {
  it('wrap what is new, and neither records nor requests are forgotten', async () => {
    old = await runJob(environment.live, request)
    further = await startAll({ env, stages: ['ingest'], overrides: { ...after } })
    const fresh = await runJob(clientOf(further), request)
    const other = await createOrganizationWith(env, { availableMicros: 1_000_000 })
    const customer = createClient({ baseUrl: further.baseUrl, apiKey: other.keys.live })
    const { created } = await runJob(customer, request)
    expect([
      await keysOfJob(redis, environment.orgId, fresh.created.id),
      await keysOfJob(redis, other.orgId, created.id),
    ]).toEqual([['results.1', '1'], ['results.1', '1']])
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

/** Creates jobs and reads their results until it is stopped; any failure rejects. */
function startLoad () {
  const clients = [environment.live, clientOf(further)]
  const stopping = new AbortController()
  let jobs = 0
  const run = async () => {
    while (!stopping.signal.aborted) {
      for (const client of clients) {
        const { created, rows } = await runJob(client, { ...request, inputs: phones.slice(0, 2) })
        await client.results(old.created.id)
        expect([rows.length, (await client.job(created.id)).metadata])
          .toEqual([2, request.metadata])
        jobs += 1
      }
    }
  }
  const running = run()
  return {
    jobs: () => jobs,
    stop: async () => {
      stopping.abort()
      await running
    },
  }
}

it('keys of an organization that are rotated under load ' +
  'replace the old ones in everything that they wrap, without a failed request', async () => {
  const load = startLoad()
  const { orgId } = environment
  expect(await workspace(before, 'keys', 'rotate', '--org', orgId)).toMatchObject({ version: 2 })
  await eventually(async () => {
    const { created } = await runJob(environment.live, request)
    expect((await keysOfJob(redis, orgId, created.id))[0]).toBe('results.2')
  })
  await workspace(before, 'keys', 'rewrap')
  expect((await keysOfJob(redis, orgId, old.created.id))[0]).toBe('results.2')
  const sent = load.jobs()
  await eventually(() => expect(load.jobs()).toBeGreaterThan(sent + 1))
  await load.stop()
})

describe('old root keys', () => {
  it('are named in the error when they are removed while still needed', async () => {
    const stock = await workspace<KeyReport>(alone, 'keys', 'list')
    expect(process.exitCode).toBe(1)
    process.exitCode = undefined
    expect(stock.lacking).toContain('key "1" of RESULTS_ROOT_KEYS')
    const lacking = await startAll({ env, stages: ['ingest'], overrides: { ...alone } })
    const client = createClient({
      baseUrl: lacking.baseUrl, apiKey: environment.keys.live, retries: 0,
    })
    const refused = client.results(old.created.id)
    await expect(refused).rejects.toMatchObject({ status: 503 })
    const balance = await client.balance()
    const refusedJob = client.createJob(request)
    await expect(refusedJob).rejects.toMatchObject({
      status: 503, message: expect.stringContaining('nothing was reserved or charged'),
    })
    expect(await client.balance()).toEqual(balance)
    await lacking.stop()
  })

  it('may be removed once everything is rewrapped, and all still works', async () => {
    const webhookSecret = await showSecret(before)
    await untilConsumed(env, { stage: 'ledger' })
    await further?.stop()
    await environment.services.stop()
    await endSharedServices()
    // A process that was killed is listed for half a minute.
    await eventually(async () =>
      expect(processesWithout(await readRootKeyHolders(redis), 'results', '2')).toEqual([]))
    const done = await workspace<RewrapReport>(after, 'keys', 'rewrap')
    expect(done).toMatchObject({ lacking: [], broken: 0, missed: 0 })
    expect(done.rewrapped).toBeGreaterThan(4)
    expect(done.rootKeys.filter(({ id }) => id === '1').map(({ isFree }) => isFree))
      .toEqual([true, true, true])
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
    const cache = openRedis(env['REDIS_CACHE_URL'] ?? '')
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
