import kafkajs, { Kafka, logLevel } from 'kafkajs'
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { deriveKeyId, parsePartnerKey } from '../../schemas/feeds/seal.ts'
import { publishDeps } from '../../services/publish/main.ts'
import { topicNames, withAdmin } from '../../services/runtime/kafka/admin.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { createPartner } from '../../services/admin/partners.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { openDeadCommands, sendDeadLetters } from '../support/dead.ts'
import { eventually } from '../support/eventually.ts'
import { sealedContact } from '../support/feeds/feeds.ts'
import { createTestPartner, sendTo, type TestPartner } from '../support/feeds/partner.ts'
import { configs, runFeeds, type RunningFeeds } from '../support/feeds/running-feeds.ts'

const { env, connected, keys, bus, codec } = connectAll()

let feeds: RunningFeeds
let partner: TestPartner
beforeAll(async () => {
  partner = await createTestPartner(env, { partitions: '2' })
  feeds = runFeeds(env, connected)
})
afterAll(async () => { await feeds.stop() })

const taken = (name: string) => feeds.requested
  .filter(({ feed }) => feed?.source.partner === name).flatMap(({ inputs }) => inputs).toSorted()

describe('the feeds on real parts', () => {
  it('take contacts of all partitions, in the name of the registration', async () => {
    const inputs = Array.from({ length: 20 }, (_, index) => `+121273650${index + 10}`)
    await sendTo(partner, inputs)
    await eventually(() => expect(taken(partner.name)).toEqual(inputs))
    const tenants = feeds.requested.map(({ tenant }) => tenant)
    expect(new Set(tenants)).toEqual(new Set([`${partner.org}.live`]))
    const partitions = feeds.requested.map(({ feed }) => feed?.source.partition)
    expect(new Set(partitions)).toEqual(new Set([0, 1]))
  })

  it('take those of a partner that is registered while they run, until it is revoked', async () => {
    const late = await createTestPartner(env)
    await sendTo(late, ['+12127365000'])
    await eventually(() => expect(taken(late.name)).toEqual(['+12127365000']))
    await withWorkspace(env, ({ partners }) => partners.revoke(late.name))
    await eventually(() => expect(feeds.revoked).toContain(late.name))
    await sendTo(late, ['+12127365001'])
    // What is sent to another one afterwards is taken, so this had its time.
    const before = taken(partner.name).length
    await sendTo(partner, ['+12127365002'])
    await eventually(() => expect(taken(partner.name)).toHaveLength(before + 1))
    expect(taken(late.name)).toEqual(['+12127365000'])
  })

  it('take contacts that are more bytes together than brokers take in a request', async () => {
    const wordy = await createTestPartner(env, { partitions: '1' })
    // As Kafka has it by default; the local brokers take more.
    await withAdmin({ brokers: env.KAFKA_BROKERS!.split(',') }, admin => admin.alterConfigs({
      validateOnly: false,
      resources: [{
        type: kafkajs.ConfigResourceTypes.TOPIC,
        name: `feeds.${wordy.name}.submitted`,
        configEntries: [{ name: 'max.message.bytes', value: '1048588' }],
      }],
    }))
    const inputs = Array.from({ length: 1_100 }, (_, index) => `${'漢'.repeat(300)}${index}`)
    await sendTo(wordy, inputs)
    await eventually(() => expect(taken(wordy.name)).toEqual(inputs.toSorted()))
  })

  it('read messages compressed by a codec they do not write', async () => {
    const { CompressionCodecs, CompressionTypes } = kafkajs
    const foreign = await createTestPartner(env)
    const decompress = vi.fn(() => { throw new Error('cannot decompress') })
    const known = CompressionCodecs[CompressionTypes.ZSTD]
    CompressionCodecs[CompressionTypes.ZSTD] = () => ({ ...known(), decompress })
    const own = new Kafka({ brokers: env.KAFKA_BROKERS!.split(','), logLevel: logLevel.NOTHING })
      .producer({ allowAutoTopicCreation: false })
    await own.connect()
    const contact = sealedContact(foreign.key, '+12127365003', {
      partner: foreign.name, service: 'phone-validation', sequence: 1,
    })
    const value = await codec.encode('feeds.submitted-value', contact)
    await own.send({
      topic: `feeds.${foreign.name}.submitted`,
      messages: [{ key: 'c1', partition: 0, value }],
      compression: CompressionTypes.ZSTD,
    })
    await own.disconnect()
    await eventually(() => expect(taken(foreign.name)).toHaveLength(1))
    expect(decompress).not.toHaveBeenCalled()
    CompressionCodecs[CompressionTypes.ZSTD] = known
  })

  it('take contacts under a new key at once, and under the old one until it expires', async () => {
    const one = await createTestPartner(env)
    await sendTo(one, ['+12127365004'])
    await eventually(() => expect(taken(one.name)).toHaveLength(1))
    const rotate = async (graceMs: number) => {
      const rotated = await withWorkspace(env, ({ partners }) => partners.rotate(one.name, graceMs))
      return parsePartnerKey(rotated?.key ?? '')
    }
    const fresh = await rotate(3_600_000)
    await sendTo(one, ['+12127365005'], fresh)
    await sendTo(one, ['+12127365006'])
    await eventually(() => expect(taken(one.name)).toHaveLength(3))
    const last = await rotate(0)
    const results: unknown[] = []
    const feed = await one.connect(last)
    await feed.listen(result => { results.push(result) }, error => { results.push(error) })
    await sendTo(one, ['+12127365007'])
    await sendTo(one, ['+12127365008'], last)
    await eventually(() => expect(taken(one.name)).toHaveLength(4))
    await eventually(() => expect(results).toMatchObject([
      { reference: 'c0', cells: { status: 'invalid', reason: 'unreadable_contact' } },
    ]))
    await feed.close()
  })

  it('seal results by the old key until it expires, and clients name a missing key',
    async () => {
      const one = await createTestPartner(env)
      const rotated = await withWorkspace(env, ({ partners }) =>
        partners.rotate(one.name, 3_600_000))
      const fresh = parsePartnerKey(rotated?.key ?? '')
      const events: string[] = []
      const listen = async (...keys: readonly Buffer[]) => {
        const feed = await one.connect(...keys)
        await feed.listen(() => { events.push('opened') }, error => { events.push(String(error)) })
        return feed
      }
      const connected = [await listen(fresh), await listen(fresh, one.key)]
      await sendTo(one, ['+12127365009'], Buffer.alloc(32))
      await eventually(() => expect(events.toSorted()).toEqual([
        expect.stringContaining(
          `sealed with key ${deriveKeyId(one.key)}, but FEED_KEY contains only ` +
          deriveKeyId(fresh)),
        'opened',
      ]))
      await Promise.all(connected.map(feed => feed.close()))
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
      },
    })
    const value = Buffer.from(`garbage of ${partner.name}`)
    const topic = `feeds.${partner.name}.submitted`
    await bus.producer('partner').send([{ topic, key: 'k', value, headers: {} }])
    await eventually(() => expect(dead).toEqual([value]))
    await consumption.stop()
  })
})

describe('letters of a feed', () => {
  const dead = openDeadCommands(env)

  it('are replayed to their partitions, and each contact is taken once', async () => {
    const replaying = await createTestPartner(env)
    const topic = `feeds.${replaying.name}.submitted`
    const messageOf = async (partition: number, sequence: number): Promise<RawMessage> => {
      const input = `+1212736${partition}${sequence}00`
      const contact = sealedContact(replaying.key, input, {
        partner: replaying.name, service: 'phone-validation', partition, sequence,
      })
      const value = await codec.encode('feeds.submitted-value', contact)
      return {
        topic,
        partition,
        offset: BigInt(90 + partition),
        key: Buffer.from('c'),
        value,
        headers: {},
        timestampMs: 0,
      }
    }
    const producer = bus.producer('letters')
    const partitions = [0, 1, 2, 3]
    // Their sender has gone on, so that the contacts of the letters are below its mark.
    const later = await Promise.all(partitions.map(partition => messageOf(partition, 5)))
    await producer.send(later.map(({ partition, value }) =>
      ({ topic, partition, key: 'c', value, headers: {} })))
    await eventually(() => expect(taken(replaying.name)).toHaveLength(4))
    const lost = await Promise.all(partitions.map(partition => messageOf(partition, 2)))
    await sendDeadLetters(
      producer, 'feed', lost.map(raw => ({ raw, reason: `schema of ${replaying.name}` })))
    const replay = async (...words: readonly string[]) => {
      const printed = await dead.dead('replay', 'feed', '--yes', '--json',
        '--reason', `schema of ${replaying.name}`, ...words)
      const { letters } = JSON.parse(printed) as Record<'letters', Record<string, string>[]>
      return letters.map(({ outcome, reason }) => [outcome, reason])
    }

    // A partner has no means to replay one: its headers change nothing.
    await producer.send(lost.map(({ partition, value }) =>
      ({ topic, partition, key: 'c', value, headers: { replay_of: '0:0', mac: 'forged' } })))
    const isIgnored = ['ignored', 'an earlier replay of the contact was taken']
    const isTaken = ['taken', 'taken by a job']
    for (const outcome of (await Promise.all([replay('--again'), replay('--again')])).flat()) {
      expect([isTaken, isIgnored]).toContainEqual(outcome)
    }
    await eventually(() => expect(taken(replaying.name)).toHaveLength(8))
    await expect(replay()).rejects.toThrow('No waiting letter of feed matches')
    const repeated = await replay('--again')
    expect(repeated).toEqual(partitions.map(() => isIgnored))

    const inputs = partitions.flatMap(partition =>
      [`+1212736${partition}200`, `+1212736${partition}500`])
    expect(taken(replaying.name)).toEqual(inputs)
    const offsets = feeds.requested.filter(({ feed }) => feed?.source.partner === replaying.name)
      .flatMap(({ feed }) => feed?.offsets ?? [])
    expect(offsets.toSorted((a, b) => a - b)).toEqual([0, 0, 0, 0, 90, 91, 92, 93])
  })
})

it('a partner is made on brokers without an authorizer for a trial only', async () => {
  const name = `untrusting-${process.pid}`
  await withWorkspace(env, async parts => {
    const options = { org: partner.org, mode: 'live', name, partitions: '1' }
    await expect(createPartner(parts, options)).rejects.toThrow('have no authorizer')
    expect(await parts.partners.find(name)).toBeUndefined()
  })
  const connection = { brokers: env.KAFKA_BROKERS!.split(',') }
  expect(await topicNames(connection)).not.toContain(`feeds.${name}.submitted`)
})

it('a partner is made without rules where they are left to others', async () => {
  const name = `elsewhere-${process.pid}`
  const options = { org: partner.org, mode: 'live', name, partitions: '1' }
  const { access } = await withWorkspace({ ...env, KAFKA_ACCESS_RULES: 'off' },
    async parts => await createPartner(parts, options))
  expect(access).toContain('leaves rules to others')
  const connection = { brokers: env.KAFKA_BROKERS!.split(',') }
  expect(await topicNames(connection)).toContain(`feeds.${name}.submitted`)
})

it('a result topic is deleted once its partner is revoked and it no longer exists', async () => {
  const log = createLog('test', { level: 'silent' })
  const deps = publishDeps(configs(env).publish, { ...connected, keys, log })
  const other = await createTestPartner(env)
  expect(await deps.isDeleted(other.name)).toBe(false)
  await withWorkspace(env, ({ partners }) => partners.revoke(other.name))
  expect(await deps.isDeleted(other.name)).toBe(false)
  await withAdmin({ brokers: env.KAFKA_BROKERS!.split(',') }, admin =>
    admin.deleteTopics({ topics: [`feeds.${other.name}.finished`] }))
  await eventually(async () => expect(await deps.isDeleted(other.name)).toBe(true))
  expect(await deps.findJob(`${partner.org}.live`, 'job_none')).toBeUndefined()
})
