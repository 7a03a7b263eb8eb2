import kafkajs, { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { sealContact } from '../../schemas/feeds/seal.ts'
import { connectSubmitter } from '../../services/feed/submitter.ts'
import { handbackParts } from '../../services/handback/parts.ts'
import { withAdmin } from '../../services/lib/kafka/admin.ts'
import { createDemoPartner } from '../../services/workspace/demo-partner.ts'
import { withWorkspace } from '../../services/workspace/parts.ts'
import { connectAll } from '../support/connected.ts'
import { eventually } from '../support/eventually.ts'
import { createTestPartner, type TestPartner } from '../support/partner.ts'
import { configs, runFeeds, type RunningFeeds } from '../support/running-feeds.ts'

const { env, connected, keys, bus, codec } = connectAll()

let feeds: RunningFeeds
let partner: TestPartner
beforeAll(async () => {
  partner = await createTestPartner(env, { partitions: '2' })
  feeds = runFeeds(env, connected)
})
afterAll(async () => { await feeds.stop() })

const taken = (name: string) => feeds.asked
  .filter(({ feed }) => feed?.source.partner === name).flatMap(({ inputs }) => inputs).toSorted()

async function contactsOf (to: TestPartner, inputs: readonly string[], key = to.key) {
  return await Promise.all(inputs.map(async (input, index) => {
    const place = {
      reference: `c${index}`, service: 'phone-validation', countryCode: '', forceFresh: false,
    }
    const sealed = sealContact(key, { partner: to.name, ...place }, input)
    const value = await codec.encode('feeds.submitted-value', { ...place, sealed, end: false })
    return { topic: `feeds.${to.name}.submitted`, key: place.reference, value, headers: {} }
  }))
}

async function send (to: TestPartner, inputs: readonly string[], key = to.key) {
  await bus.producer('partner').send(await contactsOf(to, inputs, key))
}

describe('the feeds on real parts', () => {
  it('take contacts of all partitions, in the name of the registration', async () => {
    const inputs = Array.from({ length: 20 }, (_, index) => `+121273650${index + 10}`)
    await send(partner, inputs)
    await eventually(() => expect(taken(partner.name)).toEqual(inputs))
    const tenants = feeds.asked.map(({ tenant }) => tenant)
    expect(new Set(tenants)).toEqual(new Set([`${partner.org}.live`]))
    expect(new Set(feeds.asked.map(({ feed }) => feed?.source.partition))).toEqual(new Set([0, 1]))
  })

  it('take those of a partner that is registered while they run, until it is revoked', async () => {
    const late = await createTestPartner(env)
    await send(late, ['+12127365000'])
    await eventually(() => expect(taken(late.name)).toEqual(['+12127365000']))
    await withWorkspace(env, ({ partners }) => partners.revoke(late.name))
    await eventually(() => expect(feeds.count('running')).toBe(1))
    await send(late, ['+12127365001'])
    // What is sent to another one afterwards is taken, so this had its time.
    const before = taken(partner.name).length
    await send(partner, ['+12127365002'])
    await eventually(() => expect(taken(partner.name)).toHaveLength(before + 1))
    expect(taken(late.name)).toEqual(['+12127365000'])
  })

  it('read what a partner compressed in a way that they do not know', async () => {
    const { CompressionCodecs, CompressionTypes } = kafkajs
    const foreign = await createTestPartner(env)
    const decompress = vi.fn(() => { throw new Error('nobody can read this') })
    const known = CompressionCodecs[CompressionTypes.ZSTD]
    CompressionCodecs[CompressionTypes.ZSTD] = () => ({ ...known(), decompress })
    const own = new Kafka({ brokers: env.KAFKA_BROKERS!.split(','), logLevel: logLevel.NOTHING })
      .producer({ allowAutoTopicCreation: false })
    await own.connect()
    const [{ topic, ...message } = expect.fail('no contact')] =
      await contactsOf(foreign, ['+12127365003'])
    await own.send({ topic, messages: [message], compression: CompressionTypes.ZSTD })
    await own.disconnect()
    await eventually(() => expect(taken(foreign.name)).toHaveLength(1))
    expect(decompress).not.toHaveBeenCalled()
    CompressionCodecs[CompressionTypes.ZSTD] = known
  })

  it('answer what another key sealed, under the key of the partner', async () => {
    const results: unknown[] = []
    const feed = await partner.connect()
    await feed.listen(result => { results.push(result) }, error => { results.push(error) })
    await send(partner, ['+12127365000'], Buffer.alloc(32))
    await eventually(() => expect(results).toMatchObject([
      { reference: 'c0', cells: { status: 'invalid', reason: 'unreadable_contact' } },
    ]))
    await feed.close()
  })

  it('bury what is no message of a feed, as it came', async () => {
    const dead: Buffer[] = []
    const consumption = await bus.consume({
      group: `dead-of-${partner.name}`,
      topics: ['feed.dead'],
      onAssigned: () => {},
      onDelivery: async ({ messages }) => {
        dead.push(...messages.filter(({ headers }) => headers['dead_reason'] === 'undecodable')
          .map(({ value }) => value ?? Buffer.alloc(0)))
        return { go: 'next' }
      },
    })
    const value = Buffer.from(`garbage of ${partner.name}`)
    const topic = `feeds.${partner.name}.submitted`
    await bus.producer('partner').send([{ topic, key: 'k', value, headers: {} }])
    await eventually(() => expect(dead).toEqual([value]))
    await consumption.stop()
  })
})

it('a demonstration partner has a key that its registration knows', async () => {
  const { partner: name, key } = await createDemoPartner(env, partner.org)
  const stored = await withWorkspace(env, ({ partners }) => partners.keyOf(name))
  expect(key).toBe(`vjf_${stored?.toString('base64url')}`)
})

it('the way into the pipeline and the way back are made of the same connections', async () => {
  const closers: (() => unknown)[] = []
  const { feed, handback } = configs(env)
  const made = await connectSubmitter(feed, connected, { onStop: close => closers.push(close) })
  expect(Object.keys(made)).toEqual(['submit', 'quote'])
  for (const close of closers.reverse()) await close()
  const parts = handbackParts(handback, { ...connected, keys })
  const other = await createTestPartner(env)
  expect(await parts.isGone(other.name)).toBe(false)
  await withWorkspace(env, ({ partners }) => partners.revoke(other.name))
  expect(await parts.isGone(other.name)).toBe(false)
  await withAdmin({ brokers: env.KAFKA_BROKERS!.split(',') }, admin =>
    admin.deleteTopics({ topics: [`feeds.${other.name}.finished`] }))
  await eventually(async () => expect(await parts.isGone(other.name)).toBe(true))
  expect(await parts.findJob(`${partner.org}.live`, 'job_none')).toBeUndefined()
})
