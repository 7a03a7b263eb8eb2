import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createCursors, createMarkStore } from '../../services/feed/replay-guard.ts'
import { createJobStore } from '../../services/jobs/store.ts'
import { newJobId } from '../../services/jobs/job.ts'
import type { Submission, SubmitOutcome } from '../../services/jobs/submit.ts'
import type { Consumption, ConsumeOptions } from '../../services/runtime/kafka/bus.ts'
import { sleep } from '../../services/runtime/platform/retry.ts'
import { chooseFeedGroup } from '../../services/runtime/platform/topics.ts'
import { taggedTenant } from '../../services/money/redis-keys.ts'
import { feedDeps, fill, newPartner, runFeed, type Sent } from '../support/feeds/feeds.ts'
import { acceptClaimed, acceptRequest } from '../support/jobs.ts'
import { createMemoryBus } from '../support/kafka/memory-bus.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const store = createJobStore(redis)
const cursors = createCursors(redis)
const marks = createMarkStore(redis)

/** The outcome of one request: when it is decided, and whether its feed receives the answer. */
type Reply = { readonly afterMs: number, readonly heard: boolean }
const reply: fc.Arbitrary<Reply> = fc.record({
  afterMs: fc.integer({ min: 0, max: 3 }), heard: fc.boolean(),
})

/** How a process dies: before or after Kafka knows what Redis does; and what Redis loses then. */
type Crash = {
  readonly afterMs: number, readonly losesCommits: boolean, readonly losesMarks: boolean,
}
const crash: fc.Arbitrary<Crash> = fc.record({
  afterMs: fc.integer({ min: 1, max: 6 }), losesCommits: fc.boolean(), losesMarks: fc.boolean(),
})

/** Contacts, among which an adversary puts copies of what is there already. */
const log = fc.array(fc.record({
  service: fc.constantFrom('whatsapp', 'telegram'), copyOf: fc.option(fc.nat()),
}), { minLength: 20, maxLength: 50 }).map(messages =>
  messages.map(({ service, copyOf }, index): Sent => copyOf === null || index === 0
    ? { service }
    : { copyOf: copyOf % index }))

const plan = fc.record({
  seed: fc.nat(),
  log,
  replies: fc.infiniteStream(reply),
  crashes: fc.array(crash, { maxLength: 4 }),
  limit: fc.integer({ min: 1, max: 9 }),
  /** A process of the previous release reads the same partition in another group. */
  isUpgraded: fc.boolean(),
})
type Plan = typeof plan extends fc.Arbitrary<infer P> ? P : never

/** Decides as `lookup` does, by the real script, whether or not the feed still lives to hear. */
function pipeline (replies: Iterator<Reply>, taken: number[]) {
  const pending: Promise<unknown>[] = []
  const decide = async (submission: Submission): Promise<SubmitOutcome> => {
    const { tenant, inputs, feed } = submission
    const answer = await acceptClaimed(store, tenant, acceptRequest(newJobId(Date.now()), {
      freshChecks: inputs.length, maxActiveJobs: 1_000, feed: feed!.source,
    }))
    if (answer.kind === 'refused') return answer
    taken.push(...feed!.offsets)
    return { ...answer, replayed: false }
  }
  const submit = async (submission: Submission): Promise<SubmitOutcome> => {
    const { afterMs, heard } = replies.next().value as Reply
    const decided = sleep(afterMs).then(() => decide(submission))
    pending.push(decided.catch(() => {}))
    if (heard) return decided
    throw new Error('the answer was lost on its way')
  }
  return { submit, ended: () => Promise.all(pending) }
}

async function run ({ seed, log, replies, crashes, limit, isUpgraded }: Plan) {
  const bus = createMemoryBus({ seed, partitionsOf: () => 1, maxDelivery: 8 })
  const { partner, topic } = await newPartner(redis)
  await fill(bus, partner.name, log.slice(0, -1))
  const place = { tenant: partner.tenant, partner: partner.name, partition: 0 }
  const taken: number[] = []
  const { submit, ended } = pipeline(replies, taken)
  const start = ({ losesCommits = false, group = chooseFeedGroup(partner.name) } = {}) => {
    const members: Consumption[] = []
    const consume = async (options: ConsumeOptions) => {
      const own = { ...options, group }
      const member = await bus.consume(losesCommits ? withoutCommits(own) : own)
      members.push(member)
      return member
    }
    const { topicNames } = bus
    const feed = runFeed(partner, { consume, topicNames }, feedDeps(redis, { limit, submit }))
    return { feed, crash: () => { for (const member of members) bus.crash(member) } }
  }
  const former = isUpgraded ? start({ group: `feed.${partner.name}` }) : undefined
  for (const { afterMs, losesCommits, losesMarks } of crashes) {
    const { feed, crash } = start({ losesCommits })
    await sleep(afterMs)
    crash()
    // A dead process neither receives nor sends anything more.
    await feed.stop()
    if (losesMarks) await redis.del(`marks:${taggedTenant(partner.tenant)}:${partner.name}:0`)
  }
  // Lost marks are rebuilt when there is something to read.
  await fill(bus, partner.name, log.slice(-1))
  const last = start()
  await expect.poll(() => bus.committed(chooseFeedGroup(partner.name), topic, 0), { interval: 1 })
    .toBe(BigInt(log.length))
  await expect.poll(async () => (await marks.read(place)).offset, { interval: 1 })
    .toBe(log.length - 1)
  await former?.feed.stop()
  await last.feed.stop()
  await ended()
  const positions = await cursors.read(place)
  return { taken, positions }
}

/** The process dies before the broker hears of its commits. */
function withoutCommits (options: ConsumeOptions): ConsumeOptions {
  const { onDelivery } = options
  const commit = () => {}
  return { ...options, onDelivery: delivery => onDelivery({ ...delivery, commit }) }
}

describe('the cursor of a feed', () => {
  it('assigns every contact to one job, once, whatever crashes', async () => {
    await fc.assert(fc.asyncProperty(plan, async given => {
      const { taken, positions } = await run(given)
      const services = given.log.map(sent => 'service' in sent ? sent.service : undefined)
      const contacts = [...services.keys()].filter(offset => services[offset] !== undefined)
      expect(taken.toSorted((a, b) => a - b)).toEqual(contacts)
      for (const service of new Set(services)) {
        if (service === undefined) continue
        expect(positions.get(`${service}||`)).toBe(services.lastIndexOf(service))
      }
    }), { numRuns: 40 })
  })

  it('refuses a job that does not continue at its position, and reserves nothing', async () => {
    const { partner: { name, tenant }, reservedMicros } = await newPartner(redis)
    const feedOf = (from: number, to: number) =>
      ({ partner: name, partition: 3, cursor: 'whatsapp||', from, to, unitPriceMicros: null })
    const ask = async (from: number, to: number) => {
      const request = acceptRequest(newJobId(Date.now()), { feed: feedOf(from, to) })
      const answer = await acceptClaimed(store, tenant, request)
      // Once decided, always so: the redelivered chunk of a job gets the answer it got before.
      expect((await store.accept(tenant, request)).kind).toBe(answer.kind)
      return answer.kind === 'accepted' ? answer.job.feed : answer.refusal.code
    }
    expect(await ask(0, 9)).toBe('cursor_moved')
    expect(await ask(-1, 9)).toEqual({ partner: name, partition: 3 })
    expect(await ask(-1, 12)).toBe('cursor_moved')
    expect(await ask(9, 10)).toEqual({ partner: name, partition: 3 })
    expect(await reservedMicros()).toBe(2 * 10 * 2_000)
    const positions = await cursors.read({ tenant, partner: name, partition: 3 })
    expect([...positions]).toEqual([['whatsapp||', 10]])
  })
})

describe('the stored marks of a partition', () => {
  const mark = (sequence: number) => ({ sequence, sentAt: 1_790_000_000_000 })
  const changeOf = (since: number, offset: number, sequence: number) =>
    ({ since, offset, changed: new Map([['a', mark(sequence)]]), forgotten: ['b'] })

  it('never go back, whichever process of the group writes last', async () => {
    const place = { tenant: 'org_m.live', partner: 'm', partition: 0 }
    expect(await marks.write(place, changeOf(-1, 9, 5))).toBe(true)
    expect(await marks.write(place, changeOf(-1, 9, 4))).toBe(true)
    expect(await marks.write(place, changeOf(-1, 7, 3))).toBe(true)
    expect(await marks.read(place)).toEqual({ offset: 9, senders: new Map([['a', mark(5)]]) })
    expect(await marks.write(place, {
      since: 7, offset: 12, changed: new Map([['b', mark(1)]]), forgotten: ['a'],
    })).toBe(true)
    expect(await marks.read(place)).toEqual({ offset: 12, senders: new Map([['b', mark(1)]]) })
  })

  it('are not written over what was lost', async () => {
    const place = { tenant: 'org_m.live', partner: 'm', partition: 1 }
    expect(await marks.write(place, changeOf(3, 9, 5))).toBe(false)
    expect(await marks.read(place)).toEqual({ offset: -1, senders: new Map() })
  })
})
