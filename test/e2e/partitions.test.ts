import { expect, it } from 'vitest'
import { provision } from '../../deploy/provision.ts'
import { createClient } from '../../services/client/client.ts'
import { PAUSED_KEY } from '../../services/runtime/engine/pause.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import { createTopicReader } from '../../services/runtime/kafka/topic-reader.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { openRedis } from '../support/redis/open-redis.ts'
import { topicName } from '../../services/runtime/platform/topics.ts'
import { LANES } from '../../services/topology.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { startEnvironment } from '../support/stacks/environment.ts'
import { eventually } from '../support/eventually.ts'
import { sumOf } from '../support/metrics.ts'
import { untilConsumed } from '../support/kafka/offsets.ts'
import { stackEnv } from '../support/stacks/stack.ts'

const BEFORE = 4
const AFTER = 8
const topicsOf = (...topics: readonly Parameters<typeof topicName>[0][]) =>
  topics.flatMap(topic => LANES.map(lane =>
    topicName(topic, { lane, service: 'phone-validation' })))
const TOPICS = topicsOf('rows.submitted', 'rows.normalized', 'rows.completed')
/** A job of several chunks, and one of the lane for small jobs. */
const ROWS = [5_000, 20]

const redis = closeAfterAll(openRedis(stackEnv()['REDIS_STATE_URL'] ?? ''))
// New partitions are found after that time, and used after three times as long.
const environment = closeAfterAll(await startEnvironment({ METADATA_MAX_AGE_MS: '500' }))
const connection = () => ({ brokers: (environment.env['KAFKA_BROKERS'] ?? '').split(',') })

/** A client that never retries, so a 503 fails the test. */
const client = () => createClient({
  baseUrl: environment.baseUrl, apiKey: environment.keys.live, retries: 0,
})

const create = async (inputs: readonly string[]) => {
  const job = { service: 'phone-validation', inputs, countryCode: 'US', forceFresh: true }
  return { ...await client().createJob(job), rows: inputs.length }
}

async function expectEnd ({ id, rows }: Awaited<ReturnType<typeof create>>): Promise<void> {
  const { status, successRecords, failedRecords } =
    await client().waitForEnd(id, { pollEveryMs: 20 })
  expect([status, successRecords + failedRecords]).toEqual(['completed', rows])
}

/** Jobs without a valid row, which need no check, one after another in both lanes. */
function startLoad () {
  const stopping = new AbortController()
  let ended = 0
  const run = async (rows: number) => {
    while (!stopping.signal.aborted) {
      await expectEnd(await create(Array.from({ length: rows }, (_, row) => `row ${row}`)))
      ended++
    }
  }
  const clients = Promise.all(ROWS.map(run))
  // `stop` reports the failure.
  clients.catch(() => {})
  return {
    ended: () => ended,
    stop: async () => {
      stopping.abort()
      await clients
    },
  }
}

async function pauseVerify (): Promise<void> {
  await redis.hset(PAUSED_KEY, 'verify', '{}')
  await eventually(async () =>
    expect(await sumOf(environment.services.list(), 'stage_paused', { stage: 'verify' })).toBe(1))
}

const resumeVerify = () => redis.hdel(PAUSED_KEY, 'verify')

/** Expects that each topic has a message in some partition that is new. */
async function expectUsed (topics: readonly string[]): Promise<void> {
  const used = await withAdmin(connection(), admin => Promise.all(topics.map(async topic =>
    (await admin.fetchTopicOffsets(topic))
      .some(({ partition, high }) => partition >= BEFORE && Number(high) > 0))))
  expect(used).toEqual(topics.map(() => true))
}

/** The jobs with messages in several partitions of a topic. */
async function dividedJobs (topic: string): Promise<readonly string[]> {
  const found = new Map<string, Set<number>>()
  const reader = createTopicReader({ ...connection(), clientId: 'partitions-test' })
  await reader.read(topic, messages => {
    for (const { partition, headers: { job = '' } } of messages) {
      found.set(job, (found.get(job) ?? new Set()).add(partition))
    }
  })
  return [...found].filter(([, partitions]) => partitions.size > 1).map(([job]) => job)
}

it('partitions grow under load, and all messages of a job stay in the same ones', async () => {
  const load = startLoad()
  await pauseVerify()
  const output: string[] = []
  try {
    // `lookup` has sent the first blocks of these jobs, and `verify` sends the others later.
    const early = await Promise.all(ROWS.flatMap(rows => [1, 2, 3].map(serial =>
      create(mixedPhones(rows, serial * 10_000)))))
    await eventually(() => expect(load.ended()).toBeGreaterThan(ROWS.length))
    const env = { ...environment.env, TOPIC_PARTITIONS: String(AFTER) }
    await provision(env, line => { output.push(line) })
    await eventually(() => expectUsed(TOPICS))
    await resumeVerify()
    await Promise.all(early.map(expectEnd))
  } finally {
    await resumeVerify()
  }
  await eventually(async () => {
    await Promise.all(ROWS.map(async rows => expectEnd(await create(mixedPhones(rows, 90_000)))))
    await expectUsed(topicsOf('rows.to-verify'))
  })
  await load.stop()

  expect(output).toEqual(expect.arrayContaining(TOPICS.map(topic =>
    `topics: ${topic} has ${AFTER} partitions, had ${BEFORE}`)))
  await untilConsumed(environment.env)
  const byJob = topicsOf('rows.normalized', 'rows.completed')
  expect(await Promise.all(byJob.map(dividedJobs))).toEqual(byJob.map(() => []))
  expect(await environment.breaches()).toEqual([])
})
