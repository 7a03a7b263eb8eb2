import { describe, expect, it } from 'vitest'
import type { FetchedBatch, RawMessage } from '../../../services/runtime/kafka/bus.ts'
import { createCapacity } from '../../../services/runtime/platform/limits.ts'
import { createPartnerFeed, type PartnerFeedDeps } from '../../../services/feed/partner-feeds.ts'
import type { Refusal } from '../../../services/jobs/job.ts'
import type { Submission, Submitted } from '../../../services/jobs/submit.ts'
import { systemClock } from '../../../services/runtime/platform/retry.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../support/kafka/local-schemas.ts'
import { eventually } from '../../support/eventually.ts'
import { sealedContact } from '../../support/feeds/feeds.ts'

const codec = createCodec(localSource())
const key = Buffer.alloc(32, 3)
const topic = 'feeds.acme.submitted'
const partner = {
  name: 'acme',
  orgId: 'org_1',
  tenant: 'org_1.live',
  mode: 'live',
  pricesMicros: { whatsapp: 3_500 },
  partitions: 1,
  types: 'json',
  createdAtMs: 0,
  revokedAtMs: 0,
  keys: [],
} as const
const taken = { kind: 'accepted', job: { id: 'job_1' } } as Submitted
const refused = (refusal: object) => ({ kind: 'refused', refusal }) as unknown as Submitted
const full = refused({ code: 'concurrent_jobs_limit' })
const broke = refused({ code: 'insufficient_balance', requiredMicros: 500, availableMicros: 0 })

async function raw (offset: number): Promise<RawMessage> {
  const contact = sealedContact(key, '+12127365000', { partner: 'acme', sequence: offset })
  const value = await codec.encode('feeds.submitted-value', contact)
  const at = { topic, partition: 0, offset: BigInt(offset), timestampMs: 0 }
  return { ...at, key: Buffer.from('k'), value, headers: {} }
}

let polls = 0
/** A feed with one contact per job, and the redeliveries that it asks for. */
function createScenario (
  change: Partial<PartnerFeedDeps> = {}, registered: Partial<typeof partner> | object = {}
) {
  const counted: unknown[] = []
  const requested: Submission[] = []
  const answers: Submitted[] = []
  const broken: unknown[] = []
  const waits: PromiseWithResolvers<void>[] = []
  const redeliveries: { readonly fromOffset: bigint, readonly after: unknown }[] = []
  const balance = { availableMicros: 0 }
  const deps: Partial<PartnerFeedDeps> = {
    codec,
    isConfigured: () => true,
    cursors: { read: async () => new Map() } as unknown as PartnerFeedDeps['cursors'],
    marks: {
      read: async () => ({ offset: -1, senders: new Map() }),
      write: async () => true,
      writeDead: async () => {},
    },
    partners: { keysOf: async () => [key] },
    clock: systemClock,
    deadLetters: { send: async () => {}, report: async () => {} },
    isReplay: () => false,
    rejections: { reject: async () => {}, fail: async () => {} },
    metrics: {
      count: (name, labels) => { if (name === 'feed_jobs_total') counted.push(labels) },
    },
    buffered: createCapacity(10),
    batchLimits: { contacts: 1, ageMs: 60_000 },
    submitter: {
      submit: async submission => {
        requested.push(submission)
        return answers.shift() ?? taken
      },
    },
    backpressure: {
      wallet: { balance: async () => balance as never },
      redis: { hget: async () => '0' },
      maxPauseMs: 60_000,
      pollMs: 1,
    },
    pauseAfterMs: 1,
    onBroken: error => { broken.push(error) },
    now: () => 0,
    sleep: () => {
      const wait = Promise.withResolvers<void>()
      waits.push(wait)
      return wait.promise
    },
    ...change,
  }
  const feed = createPartnerFeed({ ...partner, ...registered }, deps as PartnerFeedDeps)
  const deliver = (message: RawMessage) => feed.onDelivery({
    topic,
    partition: 0,
    messages: [message],
    more: () => [],
    signal: new AbortController().signal,
    commit: () => {},
    redeliver: (fromOffset, after) => { redeliveries.push({ fromOffset, after }) },
  } satisfies FetchedBatch)
  const inputs = () => requested.flatMap(({ inputs }) => inputs)
  const { buffered, backpressure } = deps as PartnerFeedDeps
  const seen = { broken, waits, redeliveries, balance, buffered, backpressure }
  return { feed, deliver, inputs, answers, requested, counted, ...seen }
}

describe('a partner feed', () => {
  it('that is refused jobs pauses, releases its contacts and reads them again', async () => {
    const { feed, deliver, inputs, answers, redeliveries, balance, buffered } = createScenario()
    answers.push(broke)
    await deliver(await raw(0))
    await eventually(() => expect(feed.state()).toBe('paused'))
    expect([buffered.used(), redeliveries.map(({ fromOffset }) => fromOffset)]).toEqual([0, [0n]])
    await deliver(await raw(0))
    expect([redeliveries.length, inputs().length]).toEqual([2, 1])
    balance.availableMicros = 500
    await redeliveries[1]?.after
    expect(feed.state()).toBe('running')
    await deliver(await raw(0))
    await eventually(() => expect(inputs()).toHaveLength(2))
    feed.stop()
  })

  it.each<[what: string, Submitted, Partial<PartnerFeedDeps['backpressure']>, polls: number]>([
    ['the balance covers the job', broke, {
      wallet: { balance: async () => ({ availableMicros: [0, 499, 500][polls++] }) as never },
    }, 3],
    ['the tenant has fewer active jobs than at the refusal', full,
      { redis: { hget: async () => String([10, 10, 11, 9][polls++]) } }, 4],
    ['the maximum pause is over', broke, { maxPauseMs: 20 }, 0],
  ])('asks for a job again once %s', async (_what, answer, change, expected) => {
    polls = 0
    const backpressure = { ...createScenario().backpressure, ...change }
    const { feed, deliver, inputs, answers, redeliveries } =
      createScenario({ backpressure, pauseAfterMs: 60_000 })
    answers.push(answer)
    await deliver(await raw(0))
    await eventually(() => expect(inputs()).toHaveLength(2))
    // The contact stayed in memory.
    expect([polls, redeliveries, feed.state()]).toEqual([expected, [], 'running'])
    feed.stop()
  })

  it('that fails reads its contacts again after a wait', async () => {
    const error = new Error('no keys')
    const answers: (readonly [Buffer] | Error)[] = [error, [key]]
    const keysOf = async () => {
      const answer = answers.shift() ?? [key] as const
      if (answer instanceof Error) throw answer
      return answer
    }
    const { feed, deliver, inputs, broken, waits, redeliveries } =
      createScenario({ partners: { keysOf } })
    await deliver(await raw(0))
    expect([feed.state(), broken, redeliveries.length]).toEqual(['failing', [error], 1])
    waits[0]?.resolve()
    await redeliveries[0]?.after
    expect(feed.state()).toBe('running')
    await deliver(await raw(0))
    await eventually(() => expect(inputs()).toHaveLength(1))
    feed.stop()
  })

  it('keeps its contacts when their successors are undecodable', async () => {
    const { feed, deliver, inputs, broken, waits } =
      createScenario({ batchLimits: { contacts: 2, ageMs: 60_000 } })
    await deliver(await raw(0))
    const error = new Error('Snappy compression not implemented')
    const pauses: Promise<void>[] = []
    const retry = (after: Promise<void>) => { pauses.push(after) }
    feed.onUndecodable(error, { topic, partition: 0, retry })
    expect([feed.state(), broken, inputs()]).toEqual(['failing', [error], []])
    waits.at(-1)?.resolve()
    await pauses[0]
    expect(feed.state()).toBe('running')
    await deliver(await raw(1))
    await eventually(() => expect(inputs()).toHaveLength(2))
    feed.stop()
  })

  it('requests no job while its stage is paused', async () => {
    const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
    let checks = 0
    // The pause begins after the contact is read and before the job is requested.
    const gate = { isOpen: () => true, opened: async () => { if (++checks > 1) await resumed } }
    const { feed, deliver, inputs } = createScenario({ gate })
    await deliver(await raw(0))
    await eventually(() => expect(checks).toBe(2))
    expect(inputs()).toEqual([])
    resume()
    await eventually(() => expect(inputs()).toEqual(['+12127365000']))
    feed.stop()
  })
})

describe('the job of a feed', () => {
  it('has tenant and price of the registration, and the origin of its contacts', async () => {
    const { feed, deliver, requested } = createScenario()
    await deliver(await raw(0))
    await eventually(() => expect(requested).toEqual([{
      tenant: 'org_1.live',
      service: 'whatsapp',
      inputs: ['+12127365000'],
      country: '',
      forceFresh: false,
      metadata: {},
      webhookUrl: '',
      idempotencyKey: '',
      fingerprint: '',
      feed: {
        source: {
          partner: 'acme',
          partition: 0,
          cursor: 'whatsapp||',
          from: -1,
          to: 0,
          unitPriceMicros: 3_500,
        },
        offsets: [0],
      },
      references: ['c0'],
    }]))
    feed.stop()
  })

  it.each([{ pricesMicros: {} }, { mode: 'test' }])('has no own price for %j', async registered => {
    const { feed, deliver, requested } = createScenario({}, registered)
    await deliver(await raw(0))
    await eventually(() => expect(requested[0]?.feed?.source.unitPriceMicros).toBeNull())
    feed.stop()
  })

  it.each<[Refusal['code'] | 'no answer', outcome: string]>([
    ['cursor_moved', 'moved'], ['expired', 'late'], ['internal', 'failed'], ['frozen', 'lost'],
    ['concurrent_jobs_limit', 'short'], ['no answer', 'lost'],
  ])('that is refused with %s is requested again, and counted as %s', async (code, outcome) => {
    const lost: unknown[] = []
    let requests = 0
    const submit = async () => {
      if (requests++ > 0) return taken
      if (code === 'no answer') throw new Error(code)
      return refused({ code })
    }
    const { feed, deliver, counted, waits } = createScenario({
      submitter: { submit }, onLost: (...failure) => { lost.push(failure) }, pauseAfterMs: 60_000,
    })
    await deliver(await raw(0))
    await eventually(() => {
      for (const wait of waits) wait.resolve()
      expect(counted).toEqual([{ outcome }, { outcome: 'taken' }])
    })
    const cursor = { partner: 'acme', partition: 0, cursor: 'whatsapp||' }
    expect(lost).toEqual(code === 'no answer' ? [[new Error(code), cursor]] : [])
    feed.stop()
  })
})
