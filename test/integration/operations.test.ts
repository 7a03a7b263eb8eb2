import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, afterEach, beforeEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { freePort } from '../../deploy/local/ports.ts'
import { createPartners } from '../../services/accounts/partners.ts'
import { ACCOUNTS_RUN_KEY } from '../../services/accounts/records.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { jobRedisKeys } from '../../services/jobs/job-record.ts'
import { moneyKeys, TENANTS_KEY } from '../../services/money/redis-keys.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { PAUSED_KEY } from '../../services/runtime/engine/pause.ts'
import { findHome } from '../../services/runtime/platform/redis.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { PAUSABLE_STAGES } from '../../services/topology.ts'
import type { Context } from '../../services/admin/command-line.ts'
import { withDeadLetters } from '../../services/admin/dead/letters.ts'
import { runCommand } from '../support/admin.ts'
import { acceptClaimed, accepted, acceptRequest, blockOf, upTo } from '../support/jobs.ts'
import { eventually } from '../support/eventually.ts'
import { organizationKeysOf } from '../support/keys/organization-keys.ts'
import { MESSAGE_KEY_ENV } from '../support/keys/signed.ts'
import { scatteredTenants, startRedisCluster } from '../support/redis/cluster.ts'
import { startRedisServer } from '../support/redis/server.ts'
import { keepUnlocked, MARK_COMPARED_LUA } from '../support/redis/unlock.ts'

const port = await freePort()
const url = `redis://127.0.0.1:${port}`
const server = await startRedisServer(['--port', String(port)])
const connections = Array.from({ length: 3 }, () => openRedis(url))
const [redis] = connections as [ReturnType<typeof openRedis>]
await keepUnlocked(connections[1]!, connections[2]!)
afterAll(async () => {
  connections.forEach(connection => connection.disconnect())
  await server.stop()
})
const store = createJobStore(redis)
const wallet = createWallet(redis)

beforeEach(async () => {
  await redis.flushall()
  await redis.eval(MARK_COMPARED_LUA, 1, ACCOUNTS_RUN_KEY)
  vi.stubEnv('REDIS_STATE_URL', url)
})
afterEach(() => {
  vi.unstubAllEnvs()
  vi.unstubAllGlobals()
  process.exitCode = undefined
})

/** What a command prints; `given` replaces what it uses. */
const run = (words: string, given: Partial<Context> = {}) => runCommand(words.split(' '), given)
const json = async (words: string, given?: Partial<Context>) =>
  JSON.parse(await run(`--json ${words}`, given))

/**
 * Brokers with these lags of `ledger` at each query, the last repeatedly, and these topics. An
 * error fails its query.
 */
function brokersWith (lags: readonly (number | Error)[], topics: readonly string[] = []) {
  let queries = 0
  const read: string[] = []
  const admin = {
    listTopics: async () => topics,
    fetchTopicOffsets: async (topic: string) => {
      read.push(topic)
      return [0, 1].map(partition => ({ partition, offset: '100', low: '0', high: '100' }))
    },
    fetchOffsets: async ({ groupId, topics }: { groupId: string, topics: readonly string[] }) => {
      const lag = groupId === 'ledger' ? lags[Math.min(queries++, lags.length - 1)] ?? 0 : 0
      if (lag instanceof Error) throw lag
      return topics.map(topic =>
        ({ topic, partitions: [0, 1].map(partition => ({ partition, offset: `${100 - lag}` })) }))
    },
  }
  const brokers: Context['brokers'] = async (_env, work) => await work(admin as never)
  return { brokers, read, queries: () => queries }
}

/** A terminal at which someone types this. */
function terminalWith (typed: string, isTTY = true) {
  const input = Object.assign(new PassThrough(), { isTTY })
  const errors = Object.assign(new PassThrough(), { isTTY })
  input.end(typed)
  return { input, errors }
}

/** A funded tenant with a running job of ten rows. */
async function running (tenant: string, job: string): Promise<void> {
  await redis.sadd(TENANTS_KEY, tenant)
  await wallet.topUp(tenant, { id: 'a', amountMicros: 1_000_000, reason: '' })
  await accepted(store, tenant, acceptRequest(job))
}

/** Completes the job of `running`. */
async function complete (tenant: string, job: string): Promise<void> {
  await store.tally(tenant, blockOf({ job, chunkRows: 10, inputs: true }, { live: upTo(10) }))
  await store.close(tenant, job)
}

describe('the open jobs', () => {
  const idsIn = async (words: string) =>
    (await json(words)).jobs.map(({ id }: { id: string }) => id)

  it('are listed by the time without progress, and by tenant or organization', async () => {
    expect(await run('jobs')).toBe('No open job matches.')
    for (const [tenant, job] of [
      ['org_1.live', 'job_1'], ['org_1.test', 'job_2'], ['org_12.live', 'job_3'],
    ] as const) await running(tenant, job)
    const { jobs, open } = await json('jobs --limit 1')
    expect(open).toBe(3)
    expect(jobs).toEqual([{
      id: 'job_1',
      tenant: 'org_1.live',
      service: 'phone-validation',
      lane: 'small',
      status: 'queued',
      rowsDone: 0,
      rows: 10,
      ageSeconds: expect.any(Number),
      idleSeconds: expect.any(Number),
    }])
    // Its rows are its progress, from now on.
    await store.announce('org_1.live', 'job_1')
    const block = blockOf({ job: 'job_1', chunkRows: 10, inputs: true }, { live: [0] })
    await store.tally('org_1.live', block)
    await redis.del(jobRedisKeys('org_12.live', 'job_3').job)
    expect(await idsIn('jobs')).toEqual(['job_2', 'job_3', 'job_1'])
    expect(await idsIn('jobs --tenant org_1')).toEqual(['job_2', 'job_1'])
    expect(await idsIn('jobs --tenant org_1.live')).toEqual(['job_1'])
    expect(await idsIn('jobs --stalled 60')).toEqual([])
    expect(await idsIn('jobs --stalled')).toEqual([])
    const lines = (await run('jobs --limit 2')).split('\n')
    expect(lines.slice(1)).toEqual([
      expect.stringMatching(/^job_2 +org_1\.test +phone-validation +queued +0\/10 +\d+ s +\d+ s$/),
      expect.stringMatching(/^job_3 +org_12\.live +- +- +- +- +\d+ s$/),
      '3 jobs open. 1 more than --limit shows.',
    ])
  })
})

describe('a drain', () => {
  it('ends after two queries in a row without lag and open jobs', async () => {
    const { brokers, queries } = brokersWith([0, 3, 0, 0])
    const drained = await json('drain --timeout 60', { brokers })
    expect(drained).toEqual({
      drained: true, seconds: expect.any(Number), openJobs: 0, lagMessages: 0, groups: [],
    })
    expect([queries(), process.exitCode]).toEqual([4, undefined])
  })

  it('waits for brokers that are unavailable for a while, once they have answered', async () => {
    const down = Object.assign(new Error('down'), { code: 'ECONNREFUSED' })
    const { brokers, queries } = brokersWith([3, 0, down, 0, 0])
    expect(await json('drain --timeout 60', { brokers })).toMatchObject({ drained: true })
    expect(queries()).toBe(5)
    await expect(run('drain --timeout 60', { brokers: brokersWith([down]).brokers }))
      .rejects.toThrow('down')
    await expect(run('drain --timeout 60', { brokers: brokersWith([0, new Error('x')]).brokers }))
      .rejects.toThrow('x')
  })

  it('names what is left at its time limit, with exit code 1', async () => {
    await running('org_1.live', 'job_1')
    const { brokers } = brokersWith([3])
    const text = await run('drain --timeout 0.01', { brokers })
    expect(text)
      .toMatch(/^Not drained after [\d.]+ s: 1 job open, lag of 18 messages \(ledger\)\. /)
    expect(process.exitCode).toBe(1)
    await complete('org_1.live', 'job_1')
    expect(await run('drain', { brokers: brokersWith([0]).brokers })).toMatch(/^Drained after /)
  })
})

describe('lag', () => {
  it('is shown by group or partition, with the oldest age that any process reports', async () => {
    vi.stubEnv('METRICS_TARGETS', 'http://127.0.0.1/1, http://127.0.0.1/5')
    vi.stubGlobal('fetch', async (target: string) => target.endsWith('5')
      ? new Response('stage_oldest_age_seconds{group="ledger"} 5.04\norganizations_without_keys 2')
      : new Response('stage_oldest_age_seconds{group="ledger"} 1\norganizations_without_keys 1'))
    const { groups, paused, organizationsWithoutKeys } =
      await json('lag --stage ledger', brokersWith([30]))
    expect([paused, organizationsWithoutKeys]).toEqual([[], 2])
    expect(groups).toEqual([{
      stage: 'ledger',
      group: 'ledger',
      topic: expect.stringContaining('wallet.journal'),
      partition: null,
      partitions: expect.any(Number),
      lagMessages: 30 * groups[0].partitions,
      oldestSeconds: 5,
      paused: false,
    }])
    const byPartition = (await json('lag --stage ledger --partitions', brokersWith([30]))).groups
    expect(byPartition).toHaveLength(groups[0].partitions)
    expect(byPartition[1]).toMatchObject({ partition: 1, partitions: 1, lagMessages: 30 })
    const lines = (await run('lag --stage settle', brokersWith([30]))).split('\n')
    expect(lines).toEqual([
      'stage   group         partitions  lag  oldest',
      expect.stringMatching(/^settle {2}settle\.\w+ +2 {4}0 {7}-$/),
      expect.stringMatching(/^settle {2}settle\.\w+ +2 {4}0 {7}-$/),
      'Total lag: 0 messages in 2 groups.',
      'Keys are missing in Redis: of 2 organizations. "npm run admin -- keys list" names ' +
        'them. No topic has them: see "Lost keys of an organization" in deploy/docs/keys.md.',
    ])
  })

  it('marks paused stages, and says so below the table', async () => {
    await redis.hset(PAUSED_KEY, 'settle', '{"since":"2026-08-11T10:00:00.000Z","by":"ann"}')
    const colors = { ...brokersWith([0]), terminal: { isTTY: true } }
    const lines = (await run('lag --stage settle', colors)).split('\n')
    expect(lines[1]).toContain('\u001b[33msettle (paused)\u001b[39m')
    expect(lines.at(-1)).toBe('\u001b[33msettle is paused\u001b[39m since ' +
      '2026-08-11T10:00:00.000Z by ann. Resume it with "npm run admin -- resume settle".')
    expect(await run('lag --stage verify', brokersWith([0]))).not.toContain('paused')
    expect((await json('lag --stage settle', brokersWith([0]))).groups[0].paused).toBe(true)
  })

  it('leaves out revoked partners, and what Redis and metrics would say without them', async () => {
    const partners = createPartners({ redis, keys: organizationKeysOf(1) })
    for (const name of ['acme', 'gone']) {
      await partners.create({ name, orgId: 'org_1', mode: 'live', pricesMicros: {}, partitions: 1 })
    }
    await partners.revoke('gone')
    const { brokers, read } = brokersWith([0], [
      'feeds.acme.submitted', 'feeds.acme.finished', 'feeds.gone.submitted', 'strange',
    ])
    const feedsIn = ({ groups }: { groups: readonly { stage: string, topic: string }[] }) =>
      groups.filter(({ stage }) => stage === 'feed').map(({ topic }) => topic)
    expect(feedsIn(await json('lag', { brokers }))).toEqual(['feeds.acme.submitted'])
    expect(read.filter(topic => topic.startsWith('feeds.'))).toEqual(['feeds.acme.submitted'])
    for (const url of ['', 'redis://127.0.0.1:1']) {
      vi.stubEnv('REDIS_STATE_URL', url)
      const { groups, paused, organizationsWithoutKeys } = await json('lag', { brokers })
      expect([paused, organizationsWithoutKeys]).toEqual([null, null])
      expect(groups[0]).toMatchObject({ oldestSeconds: null, paused: null })
    }
  })
})

describe('pause and resume', () => {
  const PAUSE = ['pause', 'verify', '--by', 'ann', '--reason', 'the vendor is down']
  const pause =
    { stage: 'verify', since: expect.any(String), by: 'ann', reason: 'the vendor is down' }

  it('say what was done and its effect, once', async () => {
    expect(await run('resume verify')).toBe('verify was not paused. Nothing was changed.')
    const text = await runCommand(PAUSE)
    expect(text).toMatch(/^verify is paused\. No further request goes to a provider\. /)
    expect(text).toMatch(/ "npm run admin -- resume verify"\.$/)
    expect(await run('pause verify --by bob')).toMatch(
      /^verify was already paused since \S+Z by ann: the vendor is down\. Nothing was changed\.$/)
    expect(await run('resume verify')).toMatch(
      /^verify resumes within about three seconds\. It was paused since \S+Z by ann: the vendor /)
    expect(await redis.hgetall(PAUSED_KEY)).toEqual({})
    const answers: object[] = []
    for (const words of [PAUSE, PAUSE, ['resume', 'verify'], ['resume', 'verify']]) {
      answers.push(JSON.parse(await runCommand(['--json', ...words])))
    }
    expect(answers).toEqual([
      { ...pause, paused: true, changed: true }, { ...pause, paused: true, changed: false },
      { ...pause, paused: false, changed: true },
      { stage: 'verify', paused: false, changed: false },
    ])
  })

  it.each(['normalize', 'lookup'])('need a confirmation for %s', async stage => {
    await expect(run(`pause ${stage}`, terminalWith('y\n', false))).rejects
      .toThrow(/503[^]*Add --yes to pause \w+\.$/)
    await expect(run(`--json pause ${stage}`, terminalWith('y\n'))).rejects.toThrow('Add --yes')
    const { input, errors } = terminalWith('n\n')
    expect(await run(`pause ${stage}`, { input, errors })).toBe('Nothing was paused.')
    errors.end()
    expect(await text(errors)).toMatch(new RegExp(`503[^]+\nPause ${stage}\\? \\[y/N\\] `))
    expect(await redis.hgetall(PAUSED_KEY)).toEqual({})
    expect(await run(`pause ${stage}`, terminalWith('y\n'))).toContain(`${stage} is paused. `)
    await run(`resume ${stage}`)
    expect(await run(`pause ${stage} --yes`)).toMatch(new RegExp(`^${stage} is paused`))
  })

  it('describe the effect of each stage, and refuse the others', async () => {
    for (const stage of PAUSABLE_STAGES) {
      expect(await run(`pause ${stage} --yes`)).toMatch(new RegExp(`^${stage} is paused\\. [A-Z]`))
      await run(`resume ${stage}`)
    }
    for (const [words, reason] of [
      ['pause ledger --yes', 'ledger cannot be paused: it stores'],
      ['resume ledger', 'ledger cannot be paused'], ['pause ingest', 'ingest reads no topic'],
      ['pause verfy', 'Stage verfy does not exist'],
    ] as const) await expect(run(words)).rejects.toThrow(reason)
  })

  it('know the pauses that were written by hand, in the order of the pipeline', async () => {
    await redis.hset(PAUSED_KEY, { deliver: 'by hand', strange: '{}', feed: '{"by":"ann"}' })
    expect((await json('lag', brokersWith([0]))).paused).toEqual([
      { stage: 'feed', since: '', by: 'ann', reason: '' },
      { stage: 'deliver', since: '', by: '', reason: '' },
    ])
  })
})

it('the effect of a replay of a dead letter depends on its job', async () => {
  const env = {
    ...MESSAGE_KEY_ENV,
    KAFKA_BROKERS: 'localhost:1',
    SCHEMA_REGISTRY_URL: 'http://localhost:1',
    REDIS_STATE_URL: url,
  }
  const effectOf = (job: string) => withDeadLetters(env, ({ inspect }) =>
    inspect(false, inspector => inspector.replayEffect('org_1.live', job)))
  await running('org_1.live', 'job_1')
  await acceptClaimed(store, 'org_1.live', acceptRequest('job_2', { freshChecks: 1e6 }))
  expect([await effectOf('job_1'), await effectOf('job_2'), await effectOf('job_3')]).toEqual([
    {
      jobStatus: 'queued',
      replayEffect: 'can complete open rows; all other rows keep their result and price',
    },
    { jobStatus: 'refused', replayEffect: 'changes nothing: the job was rejected' },
    {
      jobStatus: 'unknown',
      replayEffect: 'charges nothing: the job does not exist or ended more than 10 minutes ago',
    },
  ])
  await store.cancel('org_1.live', 'job_1')
  await complete('org_1.live', 'job_1')
  expect((await effectOf('job_1')).replayEffect).toBe('charges nothing: the job has ended')
})

type Cell = Readonly<Record<'address' | 'run' | 'persistence', string>> & Readonly<Record<
  'slots' | 'tenants' | 'lockedTenants' | 'frozenTenants' | 'memoryBytes', number
>> & { readonly replicas: readonly object[] }

it('the cells are the servers of a cluster, with their tenants and replicas', async () => {
  // One that is killed is not replaced while this runs.
  const servers = await startRedisCluster(['--cluster-node-timeout', '60000'], 1)
  onTestFinished(() => servers.stop())
  const cluster = await servers.connect()
  onTestFinished(() => cluster.disconnect())
  vi.stubEnv('REDIS_STATE_URL', servers.url)
  const tenants = scatteredTenants(12)
  await cluster.sadd(TENANTS_KEY, ...tenants)
  const [locked, frozen, unused] = tenants as [string, string, string]
  const cellsNow = async () => (await json('cells')) as readonly Cell[]
  const runs = new Map((await cellsNow()).map(({ address, run }) => [address, run]))
  for (const tenant of tenants.filter(name => name !== unused)) {
    const { wallet } = moneyKeys(tenant)
    await cluster.hset(wallet, { seq: 3, run: runs.get(findHome(cluster, wallet)) ?? '' })
  }
  await cluster.hset(moneyKeys(locked).wallet, 'run', 'of another run')
  await cluster.hset(moneyKeys(frozen).wallet, 'frozen', 'the journal has more')
  const cells = await eventually(async () => {
    const cells = await cellsNow()
    const replica =
      { address: expect.any(String), isOnline: true, lagSeconds: expect.any(Number) }
    for (const { replicas } of cells) expect(replicas).toEqual([replica])
    return cells
  })
  const sum = (of: (cell: Cell) => number) => cells.reduce((total, cell) => total + of(cell), 0)
  expect([
    sum(({ slots }) => slots), sum(({ tenants }) => tenants),
    sum(({ lockedTenants }) => lockedTenants), sum(({ frozenTenants }) => frozenTenants),
  ]).toEqual([16_384, 12, 1, 1])
  expect(cells.map(({ memoryBytes, persistence, run }) => [memoryBytes > 1e6, persistence, run]))
    .toEqual(cells.map(({ address }) => [true, 'off', runs.get(address)]))
  const home = findHome(cluster, moneyKeys(locked).wallet)
  expect(cells.find(({ lockedTenants }) => lockedTenants > 0)?.address).toBe(home)
  const lines = await run('cells', { terminal: { isTTY: true } })
  expect(lines).toMatch(
    new RegExp(`^${home} .* \u001b\\[31m +1\u001b\\[39m .* MB .* s behind`, 'm'))
  const other = servers.ports.find(port => `127.0.0.1:${port}` !== findHome(cluster, TENANTS_KEY))
  await servers.killNode(other ?? 0)
  expect((await cellsNow()).find(({ address }) => address.endsWith(`:${other}`)))
    .toMatchObject({ memoryBytes: null, persistence: null, run: null, replicas: null })
  expect(await run('cells')).toContain('no answer')
})
