import { spawnSync } from 'node:child_process'
import { rmSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { clickhousePart } from '../../deploy/local/clickhouse.ts'
import { loadSecrets } from '../../deploy/local/launcher/secrets.ts'
import { openPortBook } from '../../deploy/local/ports.ts'
import { startChild } from '../../deploy/local/process.ts'
import { redisPart } from '../../deploy/local/redis.ts'
import { provision } from '../../deploy/provision.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { withBrokers } from '../../services/admin/deps.ts'
import { createClient } from '../../services/client/client.ts'
import { fetchLags } from '../../services/runtime/kafka/admin.ts'
import { createTopicReader } from '../../services/runtime/kafka/topic-reader.ts'
import { runAudit } from '../support/audit.ts'
import { eventually } from '../support/eventually.ts'
import { createTestPartner, feedContacts } from '../support/feeds/partner.ts'
import { newFolder } from '../support/folder.ts'
import { runJob, startEnvironment, type Environment } from '../support/stacks/environment.ts'
import { startAll, type RunningServices } from '../support/stacks/services.ts'

const PREFIX = 'team.second.'
const dataDir = newFolder('topic-prefix-')
const closing: (() => Promise<void>)[] = []
let first: Environment
let secondEnv: Record<string, string>
let second: RunningServices

/** Another deployment on the brokers and the registry of the stack, with other stores. */
beforeAll(async () => {
  first = await startEnvironment()
  const options = { dataDir, ports: openPortBook(dataDir), say: () => {} }
  const state = await redisPart({ ...options, role: 'state' })
  const cache = await redisPart({ ...options, role: 'cache' })
  const clickhouse = await clickhousePart(options)
  for (const { spec } of [state, cache, clickhouse]) {
    const child = startChild(spec)
    closing.push(async () => {
      child.kill('SIGKILL')
      await child.exited
    })
    while (!await spec.ready()) await sleep(50)
  }
  const { KAFKA_BROKERS = '', SCHEMA_REGISTRY_URL = '' } = first.env
  secondEnv = {
    ...loadSecrets(dataDir),
    KAFKA_BROKERS,
    SCHEMA_REGISTRY_URL,
    REDIS_STATE_URL: state.url,
    REDIS_CACHE_URL: cache.url,
    CLICKHOUSE_URL: clickhouse.url,
    TOPIC_PREFIX: PREFIX,
  }
  expect(checkProvisioned()).toMatchObject({ status: 1 })
  await provision(secondEnv)
  expect(checkProvisioned()).toMatchObject({ status: 0 })
  second = await startAll({ env: secondEnv })
  closing.unshift(() => second.stop())
})

afterAll(async () => {
  for (const close of closing) await close()
  await first?.stop()
  rmSync(dataDir, { recursive: true, force: true })
})

/** Runs `provision --check` of the second deployment. */
const checkProvisioned = () => spawnSync(process.execPath, ['deploy/provision.ts', '--check'], {
  env: { ...process.env, ...secondEnv }, encoding: 'utf8',
})

/** The names of topics and groups on the brokers, and what was written to each topic. */
async function onBrokers () {
  const brokers = secondEnv['KAFKA_BROKERS']!.split(',')
  const admin = new Kafka({ brokers, logLevel: logLevel.NOTHING }).admin()
  await admin.connect()
  try {
    const topics = (await admin.listTopics()).filter(name => !name.startsWith('_'))
    const written = new Map<string, number>()
    for (const topic of topics) {
      const partitions = await admin.fetchTopicOffsets(topic)
      written.set(topic, partitions.reduce((sum, { high }) => sum + Number(high), 0))
    }
    const { groups } = await admin.listGroups()
    return { written, groups: groups.map(({ groupId }) => groupId) }
  } finally {
    await admin.disconnect()
  }
}

/** The jobs that have a data key in the topic of keys. */
async function jobsWithKeys (prefix?: string): Promise<readonly string[]> {
  const brokers = secondEnv['KAFKA_BROKERS']!.split(',')
  const jobs: string[] = []
  const reader = createTopicReader({ brokers, prefix, clientId: 'topic-prefix' })
  await reader.read('job.keys', messages => {
    jobs.push(...messages.map(({ key }) => String(key)))
  })
  return jobs
}

const REQUEST = {
  service: 'phone-validation', inputs: ['+12127365000', '+14155552671', 'no number'],
} as const

it('deployments with different prefixes share brokers and see nothing of each other', async () => {
  const { orgId, keys } = await createDemo(secondEnv)
  // Its balance is in the journal, which nothing writes to any more.
  expect(await first.breaches()).toEqual([])
  const before = await onBrokers()
  const client = createClient({ baseUrl: second.baseUrl, apiKey: keys.live })
  const { job, rows } = await runJob(client, REQUEST)
  expect(job).toMatchObject({ status: 'completed', totalRows: 3 })
  expect(rows.map(({ input }) => input)).toEqual(REQUEST.inputs)
  const partner = await createTestPartner(secondEnv, { usd: '10' })
  const { results } = await feedContacts(partner, [
    { reference: 'a', input: '+12127365000', countryCode: '' },
  ])
  expect(results.map(({ reference }) => reference)).toEqual(['a'])
  const after = await onBrokers()
  const grown = [...after.written]
    .filter(([name, count]) => count > (before.written.get(name) ?? 0))
    .map(([name]) => name)
  expect(grown).toEqual(expect.arrayContaining([
    'rows.submitted.small', 'rows.completed.small', 'wallet.journal', 'job.keys', 'jobs.settled',
    `feeds.${partner.name}.submitted`, `feeds.${partner.name}.finished`,
  ].map(name => PREFIX + name)))
  // The first deployment takes snapshots by the clock, and removes keys of jobs that ended before.
  const foreign = grown.filter(name => !name.startsWith(PREFIX))
  expect(foreign.filter(name => name !== 'wallet.snapshots' && name !== 'job.keys')).toEqual([])
  const ofSecond = await jobsWithKeys(PREFIX)
  expect(ofSecond).toContain(job.id)
  expect((await jobsWithKeys()).filter(id => ofSecond.includes(id))).toEqual([])
  // Each group exists twice, under the name of either deployment.
  expect(after.groups).toEqual(expect.arrayContaining(['settle.small', `${PREFIX}settle.small`]))
  const other = await runJob(first.live, REQUEST)
  expect(other.job.status).toBe('completed')
  expect((await runAudit(secondEnv, {})).breaches).toEqual([])
  expect(await first.breaches()).toEqual([])
  // An ended job may be copied a moment later.
  await eventually(async () => {
    const lags = await withBrokers(secondEnv, admin => fetchLags(admin))
    expect(lags.filter(({ lag }) => lag > 0)).toEqual([])
    expect(lags.filter(({ offset }) => offset > 0).map(({ group }) => group))
      .toEqual(expect.arrayContaining(['lookup.small', 'settle.small', 'ledger']))
  })
  await expect(createClient({ baseUrl: first.baseUrl, apiKey: keys.live }).job(job.id))
    .rejects.toThrow()
  expect(orgId).not.toBe(first.orgId)
})
