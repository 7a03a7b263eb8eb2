import kafkajs, { Kafka, logLevel } from 'kafkajs'
import { afterEach, describe, expect, it } from 'vitest'
import type { Submission, SubmitOutcome } from '../../services/jobs/submit.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import { chooseFeedGroup } from '../../services/runtime/platform/topics.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
import { sealedContact } from '../support/feeds/feeds.ts'
import { createTestPartner, sendTo, type TestPartner } from '../support/feeds/partner.ts'
import { runFeeds, type RunningFeeds } from '../support/feeds/running-feeds.ts'
import { endSharedServices } from '../support/stacks/services.ts'

const { CompressionCodecs, CompressionTypes, ConfigResourceTypes } = kafkajs
const { env, brokers, connected, codec } = connectAll()
const kafka = new Kafka({ brokers, logLevel: logLevel.NOTHING })

let running: RunningFeeds | undefined
const run = (answer?: (submission: Submission) => SubmitOutcome) => {
  running = runFeeds(env, connected, answer)
  return running
}
// Their feed would be in the same consumer groups, and take contacts.
await endSharedServices()
afterEach(async () => { await running?.stop() })

const taken = (feeds: RunningFeeds, { name }: TestPartner) => feeds.requested
  .filter(({ feed }) => feed?.source.partner === name).flatMap(({ inputs }) => inputs)
const stateOf = (feeds: RunningFeeds, { name }: TestPartner) => feeds.states().get(name)
const phones = (count: number, from = 0) =>
  Array.from({ length: count }, (_, index) => `+1212736${5_000 + from + index}`)
/** How many contacts were taken; a rebalance may deliver some of them again. */
const takenOnce = (feeds: RunningFeeds, partner: TestPartner) => new Set(taken(feeds, partner)).size
const topicOf = ({ name }: TestPartner) => `feeds.${name}.submitted`

/** Two partners of one group: a test breaks the first, and the other one must not notice. */
async function createPair () {
  const first = await createTestPartner(env, { partitions: '1' })
  return [first, await createTestPartner(env, { partitions: '1', beside: first.name })] as const
}

describe('partners of one consumer group', () => {
  it('lose nothing while another partner is created and one is revoked', async () => {
    const [revoked, sender] = await createPair()
    const feeds = run()
    await eventually(() => expect(feeds.ready()).toBe(true))
    const sent: string[] = []
    const over = new AbortController()
    const sending = (async () => {
      while (!over.signal.aborted) {
        const more = phones(20, sent.length)
        await sendTo(sender, more)
        sent.push(...more)
      }
    })()
    try {
      const created = await createTestPartner(env, { partitions: '1', beside: sender.name })
      await withWorkspace(env, ({ partners }) => partners.revoke(revoked.name))
      await sendTo(created, phones(3))
      await eventually(() => expect(new Set(taken(feeds, created))).toEqual(new Set(phones(3))))
    } finally {
      over.abort()
      await sending
    }
    await eventually(() => expect(new Set(taken(feeds, sender))).toEqual(new Set(sent)))
  })

  it('continue while one has no balance, which continues with one', async () => {
    const [poor, rich] = await createPair()
    const tenant = `${poor.org}.live`
    let isPoor = true
    const refusal = { code: 'insufficient_balance', requiredMicros: 500, availableMicros: 0 }
    const refused = { kind: 'refused', refusal } as unknown as SubmitOutcome
    const feeds = run(({ tenant: of }) => of === tenant && isPoor
      ? refused
      : { kind: 'accepted', job: { id: 'job_1' } as never, replayed: false })
    await sendTo(poor, phones(3))
    await eventually(() => expect(stateOf(feeds, poor)).toBe('paused'))
    await sendTo(rich, phones(3))
    await eventually(() => expect(takenOnce(feeds, rich)).toBe(3))
    expect([taken(feeds, poor), stateOf(feeds, poor)]).toEqual([[], 'paused'])
    isPoor = false
    await poor.topUp('1')
    await eventually(() => expect(takenOnce(feeds, poor)).toBe(3))
    expect(stateOf(feeds, poor)).toBe('running')
  })

  it('continue beside one whose messages cannot be decoded, until they can', async () => {
    const [broken, healthy] = await createPair()
    await withAdmin({ brokers }, admin => admin.alterConfigs({
      validateOnly: false,
      resources: [{
        type: ConfigResourceTypes.TOPIC,
        name: topicOf(broken),
        configEntries: [{ name: 'compression.type', value: 'producer' }],
      }],
    }))
    const known = CompressionCodecs[CompressionTypes.ZSTD]
    const decompress = () => { throw new Error('cannot decompress') }
    CompressionCodecs[CompressionTypes.ZSTD] = () => ({ ...known(), decompress })
    try {
      const producer = kafka.producer({ allowAutoTopicCreation: false })
      await producer.connect()
      const [input = ''] = phones(1)
      const contact = sealedContact(broken.key, input, {
        partner: broken.name, service: 'phone-validation', sequence: 1,
      })
      await producer.send({
        topic: topicOf(broken),
        messages: [{ key: 'c1', value: await codec.encode('feeds.submitted-value', contact) }],
        compression: CompressionTypes.ZSTD,
      })
      await producer.disconnect()
      const feeds = run()
      await eventually(() => expect(stateOf(feeds, broken)).toBe('failing'))
      await sendTo(healthy, phones(3))
      await eventually(() => expect(takenOnce(feeds, healthy)).toBe(3))
      expect(taken(feeds, broken)).toEqual([])
      CompressionCodecs[CompressionTypes.ZSTD] = known
      await eventually(() => expect(taken(feeds, broken)).toEqual([input]))
    } finally {
      CompressionCodecs[CompressionTypes.ZSTD] = known
    }
  })

  it('continue beside one whose topic is deleted', async () => {
    const [broken, healthy] = await createPair()
    const feeds = run()
    await eventually(() => expect(feeds.ready()).toBe(true))
    await withAdmin({ brokers }, admin => admin.deleteTopics({ topics: [topicOf(broken)] }))
    await eventually(() => expect(stateOf(feeds, broken)).toBe('failing'))
    await sendTo(healthy, phones(3))
    await eventually(() => expect(takenOnce(feeds, healthy)).toBe(3))
    await withWorkspace(env, ({ partners }) => partners.revoke(broken.name))
    await eventually(() => expect(feeds.states().has(broken.name)).toBe(false))
  })
})

it('a consumer group without commits, as after an upgrade ' +
  'starts at the stored marks and takes no contact again', async () => {
  const partner = await createTestPartner(env, { partitions: '2' })
  const before = run()
  await sendTo(partner, phones(20))
  await eventually(() => expect(taken(before, partner)).toHaveLength(20))
  await before.stop()
  await withAdmin({ brokers }, admin => admin.deleteGroups([chooseFeedGroup(partner.name)]))
  const after = run()
  await sendTo(partner, phones(20, 20))
  await eventually(() => expect(taken(after, partner)).toHaveLength(20))
  expect(taken(after, partner).toSorted()).toEqual(phones(20, 20))
  await eventually(async () => {
    const lags = await withAdmin({ brokers }, async admin => {
      const [ends, commits] = await Promise.all([
        admin.fetchTopicOffsets(topicOf(partner)),
        admin.fetchOffsets({
          groupId: chooseFeedGroup(partner.name), topics: [topicOf(partner)],
        }),
      ])
      return ends.map(({ partition, high }) => Number(high) - Number(
        commits[0]?.partitions.find(one => one.partition === partition)?.offset))
    })
    expect(lags).toEqual([0, 0])
  })
})

it('the version of all partners changes with each of them', async () => {
  await withWorkspace(env, async ({ partners }) => {
    const versions = [await partners.version()]
    const { name } = await createTestPartner(env, { partitions: '1' })
    versions.push(await partners.version())
    await partners.revoke(name)
    versions.push(await partners.version(), await partners.version())
    expect(new Set(versions).size).toBe(3)
    expect(versions[2]).toBe(versions[3])
  })
})
