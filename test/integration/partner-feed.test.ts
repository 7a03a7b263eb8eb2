import { describe, expect, it, onTestFinished } from 'vitest'
import { openResult, deriveResultId } from '../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../schemas/types.ts'
import type { Partner } from '../../services/accounts/partners.ts'
import { connectRejections } from '../../services/feed/contact.ts'
import { createPartnerFeed, type PartnerFeedDeps } from '../../services/feed/partner-feeds.ts'
import { createMarkStore, type Marks } from '../../services/feed/replay-guard.ts'
import type { Refusal } from '../../services/jobs/job.ts'
import { cursorsKey } from '../../services/jobs/job-record.ts'
import type { Submission, SubmitOutcome } from '../../services/jobs/submit.ts'
import { createWallet } from '../../services/money/wallet.ts'
import type { ReplayOutcome } from '../../services/runtime/engine/dead-letters.ts'
import type { OutgoingMessage, RawMessage } from '../../services/runtime/kafka/bus.ts'
import { createCodec } from '../../services/runtime/kafka/registry.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { Capacity } from '../../services/runtime/platform/limits.ts'
import { eventually } from '../support/eventually.ts'
import {
  feedDeps, newPartner, partnerKey, SENDER, sealedContact,
} from '../support/feeds/feeds.ts'
import { localSource } from '../support/kafka/local-schemas.ts'
import { startRedis } from '../support/redis/redis.ts'

const { redis } = await startRedis()
const codec = createCodec(localSource())
const NOW_MS = 1_790_000_000_000
const DAY_MS = 86_400_000
const taken = { kind: 'accepted', job: { id: 'job_1' } } as SubmitOutcome
const refused = (refusal: object) => ({ kind: 'refused', refusal }) as unknown as SubmitOutcome
const unaffordable = refused(
  { code: 'insufficient_balance', requiredMicros: 2_000_000_000, availableMicros: 0 })
const nextTurn = () => new Promise(resolve => setImmediate(resolve))
const noKey = async () => { throw new Error('no keys') }

type Given = {
  readonly change?: Partial<PartnerFeedDeps>
  readonly registered?: Partial<Partner>
  /** The marks that Redis has. */
  readonly marks?: Marks
  /** The offset of the cursor of WhatsApp that Redis has. */
  readonly position?: number
  /** The outcomes of the first requests; jobs take the contacts of later ones. */
  readonly answers?: (SubmitOutcome | Promise<SubmitOutcome> | Error)[]
  /** Errors of the first sends of results. */
  readonly outages?: Error[]
}

/** What a feed did. */
const newRecords = () => ({
  requested: [] as Submission[],
  outcomes: [] as unknown[],
  sent: [] as OutgoingMessage[],
  dead: [] as unknown[],
  reports: [] as ReplayOutcome[],
  /** The offsets of replayed contacts, each after -1 when it was counted. */
  replays: [] as number[],
  broken: [] as unknown[],
  commits: [] as (bigint | 'reported')[],
  redeliveries: [] as { readonly fromOffset: bigint, readonly after: unknown }[],
})
type Records = ReturnType<typeof newRecords>

/** The dependencies of a feed on a real Redis, which tell what it did. */
function recordingDeps (
  { requested, outcomes, sent, dead, reports, replays, broken, commits }: Records,
  { answers = [], outages = [], change }: Given
): PartnerFeedDeps {
  const submit = async (submission: Submission) => {
    requested.push(submission)
    const answer = await answers.shift() ?? taken
    if (answer instanceof Error) throw answer
    return answer
  }
  const send = async (messages: readonly OutgoingMessage[]) => {
    const outage = outages.shift()
    if (outage !== undefined) throw outage
    sent.push(...messages)
  }
  const bus = { producer: () => ({ send, close: async () => {} }) }
  return {
    ...feedDeps(redis, { limit: 2, submit }),
    batchLimits: { contacts: 2, ageMs: 60_000 },
    clock: { now: () => NOW_MS },
    isReplay: ({ headers }) => headers['signed'] === 'yes',
    deadLetters: {
      send: async decisions => { dead.push(...decisions.flat()) },
      report: async some => {
        reports.push(...some)
        commits.push('reported')
      },
    },
    rejections: connectRejections({ codec, bus }, { now: () => 0 }),
    metrics: {
      count: (name, labels) => {
        if (name === 'feed_replays_total') replays.push(-1)
        if (name === 'feed_jobs_total') outcomes.push(labels)
      },
    },
    onReplay: ({ offset }) => { replays.push(offset) },
    onBroken: error => { broken.push(error) },
    ...change,
  }
}

/** Contacts as Kafka delivers them to partition 0. */
const messagesTo = (partner: string) =>
  async (offset: number, change: Partial<FeedContact> = {}): Promise<RawMessage> => {
    const contact = sealedContact(partnerKey, `input ${offset}`, {
      partner, sequence: offset, sentAt: NOW_MS, ...change,
    })
    return {
      topic: `feeds.${partner}.submitted`,
      partition: 0,
      offset: BigInt(offset),
      timestampMs: 0,
      key: Buffer.from('k'),
      value: await codec.encode('feeds.submitted-value', { ...contact, ...change }),
      headers: {},
    }
  }

/** A feed of one partition, whose batches have two contacts or end by a marker. */
async function createScenario (given: Given = {}) {
  const made = await newPartner(redis)
  const partner: Partner = { ...made.partner, ...given.registered }
  const place = { tenant: partner.tenant, partner: partner.name, partition: 0 }
  const marks = createMarkStore(redis)
  if (given.marks !== undefined) {
    const { offset, senders: changed } = given.marks
    await marks.write(place, { since: -1, offset, changed, forgotten: [] })
  }
  if (given.position !== undefined) {
    await redis.hset(cursorsKey(place.tenant, place), 'whatsapp||', given.position)
  }
  const records = newRecords()
  const { requested, commits, redeliveries } = records
  const deps = recordingDeps(records, given)
  const feed = createPartnerFeed(partner, deps)
  const lost = new AbortController()
  onTestFinished(() => {
    lost.abort()
    feed.stop()
  })
  const { topic } = made
  const deliver = async (...messages: readonly RawMessage[]) => {
    await feed.onDelivery({
      topic,
      partition: 0,
      messages,
      more: () => [],
      signal: lost.signal,
      commit: next => { commits.push(next) },
      redeliver: (fromOffset, after) => { redeliveries.push({ fromOffset, after }) },
    })
  }
  return {
    ...records,
    partner,
    feed,
    topic,
    message: messagesTo(partner.name),
    deliver,
    lost,
    buffered: deps.buffered,
    storedMarks: () => marks.read(place),
    committed: (offset: number) =>
      eventually(() => expect(commits.at(-1)).toBe(BigInt(offset))),
    offsets: () => requested.map(({ feed }) => feed?.offsets),
  }
}

const END = { reference: '', sealed: null, end: true }
const finishedTo = (offset: number): Marks => ({ offset, senders: new Map() })
const marked = (offset: number, sequence: number): Marks =>
  ({ offset, senders: new Map([[SENDER, { sequence, sentAt: NOW_MS }]]) })

/** Waits that end when the test says so. */
function createWaits () {
  const waits: { readonly ms: number, readonly end: () => void }[] = []
  const sleep = (ms: number) => new Promise<undefined>(resolve => {
    waits.push({ ms, end: () => resolve(undefined) })
  })
  return { waits, sleep, endAll: () => { for (const { end } of waits) end() } }
}

/** A result as its partner reads it. */
async function openSent (partner: Partner, { value }: OutgoingMessage) {
  const { resultId, reference, sealed } =
    await codec.decode('feeds.finished', value!) as FeedResult
  const cells = openResult([partnerKey], { partner: partner.name, reference, resultId }, sealed)
  return { resultId, reference, cells }
}

describe('a contact of a feed', () => {
  it('is submitted at once before an end marker, by tenant and price of the partner', async () => {
    const job = Promise.withResolvers<SubmitOutcome>()
    const { partner: { name, tenant }, ...scenario } = await createScenario({
      answers: [job.promise], registered: { pricesMicros: { whatsapp: 3_500 } },
    })
    const { message, deliver, requested, commits, buffered } = scenario
    await deliver(await message(0), await message(1, END))
    const source = { partner: name, partition: 0, cursor: 'whatsapp||', from: -1, to: 0 }
    await eventually(() => expect(requested).toEqual([{
      tenant,
      service: 'whatsapp',
      inputs: ['input 0'],
      references: ['c0'],
      country: '',
      forceFresh: false,
      metadata: {},
      webhookUrl: '',
      idempotencyKey: '',
      fingerprint: '',
      feed: { source: { ...source, unitPriceMicros: 3_500 }, offsets: [0] },
    }]))
    expect([commits, buffered.used()]).toEqual([[], 1])
    job.resolve(taken)
    await scenario.committed(2)
    expect([buffered.used(), scenario.sent]).toEqual([0, []])
  })

  it.each<Partial<Partner>>([{ pricesMicros: {} }, { mode: 'test' }])(
    'has no own price for %j', async registered => {
      const { message, deliver, requested } = await createScenario({
        registered: { pricesMicros: { whatsapp: 3_500 }, ...registered },
      })
      await deliver(await message(0, { end: true }))
      await eventually(() => expect(requested[0]?.feed?.source.unitPriceMicros).toBeNull())
    })

  it('is answered when it is invalid, also after an outage', async () => {
    const { partner, message, deliver, sent, commits } = await createScenario({
      marks: finishedTo(5), outages: [new InfrastructureError('away')],
    })
    await deliver(await message(6, { service: 'fortune-telling' }))
    expect(sent.map(({ topic, key }) => [topic, key]))
      .toEqual([[`feeds.${partner.name}.finished`, 'c6']])
    const at = '1970-01-01T00:00:00.000Z'
    expect(await openSent(partner, sent[0]!)).toEqual({
      resultId: deriveResultId(partner.name, 0, 6),
      reference: 'c6',
      cells: {
        status: 'invalid',
        reason: 'unknown_service',
        source: 'preflight',
        confidence: '100',
        checked_at: at,
        expires_at: at,
      },
    })
    expect(commits).toEqual([7n])
  })

  it('leaves the memory when the partition is lost', async () => {
    const job = Promise.withResolvers<SubmitOutcome>()
    const { message, deliver, buffered, lost, commits, requested } =
      await createScenario({ answers: [job.promise] })
    await deliver(await message(0), await message(1))
    await eventually(() => expect(requested).toHaveLength(1))
    lost.abort()
    expect(buffered.used()).toBe(0)
    job.resolve(taken)
    await nextTurn()
    expect([commits, buffered.used()]).toEqual([[], 0])
  })
})

describe('a batch of a feed', () => {
  it('closes at its maximum number or age of contacts, and at an end marker', async () => {
    const { waits, sleep } = createWaits()
    let nowMs = 0
    const { message, deliver, requested, offsets } = await createScenario({
      change: { batchLimits: { contacts: 3, ageMs: 100 }, now: () => nowMs, sleep },
    })
    const add = async (atMs: number, some: readonly number[], change = {}) => {
      nowMs = atMs
      await deliver(...await Promise.all(some.map(offset => message(offset, change))))
      const closed = [waits.map(({ ms }) => ms), offsets()]
      requested.length = 0
      return closed
    }
    expect(await add(0, [0])).toEqual([[100], []])
    expect(await add(50, [1])).toEqual([[100], []])
    expect(await add(60, [2], END)).toEqual([[100], [[0, 1]]])
    expect(await add(70, [4])).toEqual([[100, 100], []])
    // What is above the maximum waits from its own arrival on.
    expect(await add(80, [5, 6, 7])).toEqual([[100, 100, 100], [[4, 5, 6]]])
    nowMs = 180
    waits.at(-1)?.end()
    await eventually(() => expect(offsets()).toEqual([[7]]))
  })

  it('isolates a contact that no job can be created for, which is answered alone', async () => {
    const { partner, message, deliver, requested, sent, committed } = await createScenario({
      answers: Array(10).fill(refused({ code: 'internal' })),
      change: { batchLimits: { contacts: 4, ageMs: 60_000 } },
    })
    await deliver(...await Promise.all([0, 1, 2].map(offset => message(offset))),
      await message(3, { end: true }))
    await committed(4)
    expect(requested.map(({ inputs }) => inputs.length).slice(0, 4)).toEqual([4, 2, 1, 1])
    expect(sent).toHaveLength(1)
    expect(await openSent(partner, sent[0]!)).toMatchObject({
      reference: 'c0', cells: { status: 'unknown', reason: 'internal', input: 'input 0' },
    })
  })

  it('gets smaller while the pipeline is slow, and fails no contact', async () => {
    const { message, deliver, requested, sent, committed } = await createScenario({
      answers: Array(12).fill(refused({ code: 'expired' })),
      change: {
        batchLimits: { contacts: 2_500, ageMs: 60_000 }, buffered: new Capacity(10_000),
      },
    })
    const all = await Promise.all(Array.from({ length: 2_499 }, (_, offset) => message(offset)))
    await deliver(...all, await message(2_499, { end: true }))
    await committed(2_500)
    expect(requested.map(({ inputs }) => inputs.length).slice(0, 4))
      .toEqual([2_500, 1_250, 1_000, 1_000])
    expect(sent).toEqual([])
  })

  it.each<[Refusal['code'] | 'no answer', outcome: string]>([
    ['cursor_moved', 'moved'], ['expired', 'late'], ['internal', 'failed'], ['frozen', 'lost'],
    ['concurrent_jobs_limit', 'short'], ['no answer', 'lost'],
  ])('that is refused with %s is requested again, and counted as %s', async (code, outcome) => {
    const lost: unknown[] = []
    const answer = code === 'no answer' ? new Error(code) : refused({ code })
    const { partner, message, deliver, outcomes } = await createScenario({
      answers: [answer], change: { onLost: (...failure) => { lost.push(failure) } },
    })
    await deliver(await message(0, { end: true }))
    await eventually(() => expect(outcomes).toEqual([{ outcome }, { outcome: 'taken' }]))
    const cursor = { partner: partner.name, partition: 0, cursor: 'whatsapp||' }
    expect(lost).toEqual(code === 'no answer' ? [[new Error(code), cursor]] : [])
  })

  it.each([[false, 1], [true, 0]])(
    'reports an error without retries (its partition is lost: %s)', async (isLost, count) => {
      let reads = 0
      const { message, deliver, broken, lost } = await createScenario({
        answers: [refused({ code: 'frozen' })],
        change: {
          cursors: {
            read: async () => {
              if (reads++ === 0) return new Map()
              if (isLost) lost.abort()
              throw new Error('no position')
            },
          },
        },
      })
      await deliver(await message(0, { end: true }))
      await eventually(() => expect(reads).toBe(2))
      await nextTurn()
      expect(broken).toHaveLength(count)
    })
})

describe('a feed', () => {
  it('that is refused jobs pauses, releases its contacts and reads them again', async () => {
    const wallet = createWallet(redis)
    const { partner, ...scenario } = await createScenario({
      answers: [unaffordable],
      change: {
        pauseAfterMs: 1, backpressure: { wallet, redis, maxPauseMs: 60_000, pollMs: 1 },
      },
    })
    const { feed, message, deliver, requested, redeliveries, buffered } = scenario
    await deliver(await message(0, { end: true }))
    await eventually(() => expect(feed.state()).toBe('paused'))
    expect([buffered.used(), redeliveries.map(({ fromOffset }) => fromOffset)]).toEqual([0, [0n]])
    await deliver(await message(0, { end: true }))
    expect([redeliveries.length, requested.length]).toEqual([2, 1])
    await wallet.topUp(partner.tenant, { id: 'b', amountMicros: 1_000_000_000, reason: '' })
    await redeliveries[1]?.after
    expect(feed.state()).toBe('running')
    await deliver(await message(0, { end: true }))
    await eventually(() => expect(requested).toHaveLength(2))
  })

  const expensive = { code: 'insufficient_balance', requiredMicros: 500 }
  type Wait = [what: string, refusal: object, read: number[], maxPauseMs: number]
  it.each<Wait>([
    ['the balance covers the job', expensive, [0, 499, 500], 60_000],
    ['the tenant has fewer active jobs than at the refusal', { code: 'concurrent_jobs_limit' },
      [10, 10, 11, 9], 60_000],
    ['the maximum pause is over', expensive, [], 20],
  ])('asks for a job again once %s', async (_what, refusal, rest, maxPauseMs) => {
    const { feed, message, deliver, requested, redeliveries } = await createScenario({
      answers: [refused(refusal)],
      change: {
        pauseAfterMs: 60_000,
        backpressure: {
          wallet: { balance: async () => ({ availableMicros: rest.shift() ?? 0 }) as never },
          redis: { hget: async () => String(rest.shift()) },
          maxPauseMs,
          pollMs: 1,
        },
      },
    })
    await deliver(await message(0, { end: true }))
    await eventually(() => expect(requested).toHaveLength(2))
    // The contact stayed in memory.
    expect([rest, redeliveries, feed.state()]).toEqual([[], [], 'running'])
  })

  it('that fails reads its contacts again after a wait', async () => {
    const { waits, sleep } = createWaits()
    const reads = [noKey, async () => [partnerKey] as const]
    const { feed, message, deliver, requested, broken, redeliveries } = await createScenario({
      change: { sleep, partners: { keysOf: async () => await (reads.shift() ?? reads[0]!)() } },
    })
    await deliver(await message(0, { end: true }))
    expect([feed.state(), broken, redeliveries.length])
      .toEqual(['failing', [new Error('no keys')], 1])
    waits[0]?.end()
    await redeliveries[0]?.after
    expect(feed.state()).toBe('running')
    await deliver(await message(0, { end: true }))
    await eventually(() => expect(requested).toHaveLength(1))
  })

  it('keeps its contacts when their successors are undecodable', async () => {
    const { waits, sleep } = createWaits()
    const { feed, topic, message, deliver, requested, broken } =
      await createScenario({ change: { sleep } })
    await deliver(await message(0))
    const error = new Error('Snappy compression not implemented')
    const pauses: Promise<void>[] = []
    feed.onUndecodable(error, { topic, partition: 0, retry: after => { pauses.push(after) } })
    expect([feed.state(), broken, requested]).toEqual(['failing', [error], []])
    waits.at(-1)?.end()
    await pauses[0]
    expect(feed.state()).toBe('running')
    await deliver(await message(1))
    await eventually(() => expect(requested).toMatchObject([{ inputs: ['input 0', 'input 1'] }]))
  })

  it('requests no job while its stage is paused', async () => {
    const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
    let checks = 0
    // The pause begins after the contact is read and before the job is requested.
    const gate = { isOpen: () => true, opened: async () => { if (++checks > 1) await resumed } }
    const { message, deliver, requested } = await createScenario({ change: { gate } })
    await deliver(await message(0, { end: true }))
    await eventually(() => expect(checks).toBe(2))
    expect(requested).toEqual([])
    resume()
    await eventually(() => expect(requested).toHaveLength(1))
  })
})

describe('a replayed contact of a feed', () => {
  it('becomes no row, gets no answer and is counted', async () => {
    const { message, deliver, sent, committed, replays, offsets } = await createScenario()
    const invalid = { service: 'fortune-telling' }
    await deliver(await message(0), await message(1, invalid), await message(2))
    await deliver(await message(3, { sequence: 0 }), await message(4, { ...invalid, sequence: 1 }),
      await message(5, { end: true }))
    await committed(6)
    expect([offsets(), sent.length]).toEqual([[[0, 2], [5]], 1])
    expect(replays).toEqual([-1, 3, -1, 4])
  })

  it('leaves no mark if it is not authentic', async () => {
    const { message, deliver, sent, offsets } = await createScenario()
    const forged = { sequence: 9, sealed: Buffer.alloc(60, 2) }
    await deliver(await message(0, forged), await message(1, { end: true }))
    await eventually(() => expect([offsets(), sent.length]).toEqual([[[1]], 1]))
  })

  it('gets no second answer if it was rejected and its cursor has passed it', async () => {
    const { message, deliver, sent, commits } = await createScenario({ position: 4 })
    await deliver(await message(0, { sentAt: 1 }), await message(1, { sealed: Buffer.alloc(60) }))
    expect([sent, commits]).toEqual([[], [2n]])
  })
})

it('a letter that is read again is neither a contact nor a letter, though it is decodable by then',
  async () => {
    const garbage = { value: Buffer.from('garbage') }
    const first = await createScenario({ marks: finishedTo(3) })
    await first.deliver(await first.message(4), { ...await first.message(5), ...garbage })
    expect([first.dead.length, [...(await first.storedMarks()).senders.keys()]])
      .toEqual([1, ['dead:5']])
    const again = await createScenario({ marks: await first.storedMarks() })
    const { message, deliver, dead, committed, offsets } = again
    await deliver(...await Promise.all([4, 5, 6].map(offset => message(offset))))
    await committed(7)
    expect([dead, offsets()]).toEqual([[], [[4, 6]]])
    expect([...(await again.storedMarks()).senders.keys()]).toEqual([SENDER])
  })

describe('the replay of a letter', () => {
  const old = { sequence: 1, sentAt: NOW_MS - 20 * DAY_MS }
  /** An operator replays a letter, which was at offset 1 first. */
  const asReplay = (raw: RawMessage, headers = {}): RawMessage => ({
    ...raw,
    headers: {
      signed: 'yes',
      replay_of: '0:6',
      replay_offset: '1',
      replay_dead_at: String(NOW_MS - 20 * DAY_MS),
      replay_at: String(NOW_MS),
      ...headers,
    },
  })
  const isTaken = { letter: '0:6', action: 'replayed', reason: 'taken by a job', job: 'job_1' }

  it('is taken below the mark of its sender, as its first message, however old', async () => {
    const job = Promise.withResolvers<SubmitOutcome>()
    const { message, deliver, requested, reports, commits, committed, replays, offsets } =
      await createScenario({ marks: marked(3, 3), answers: [job.promise] })
    await deliver(asReplay(await message(4, old)), await message(5))
    await eventually(() => expect(offsets()).toEqual([[1, 5]]))
    expect(requested[0]?.feed?.source.to).toBe(5)
    expect(reports).toEqual([])
    job.resolve(taken)
    await committed(6)
    expect(reports).toEqual([isTaken])
    // Reported before its offset is committed.
    expect(commits).toEqual(['reported', 6n])
    expect(replays).toEqual([])
  })

  it('is taken once, whichever letter and copy it comes from', async () => {
    const { message, deliver, reports, committed, offsets } =
      await createScenario({ marks: marked(3, 3) })
    await deliver(asReplay(await message(4, old)),
      asReplay(await message(5, old), { replay_of: '0:7' }), await message(6, old))
    await deliver(await message(7))
    await committed(8)
    expect(offsets()).toEqual([[1, 7]])
    expect(reports.toSorted((a, b) => a.letter < b.letter ? -1 : 1)).toEqual([isTaken, {
      letter: '0:7', action: 'ignored', reason: 'an earlier replay of the contact was taken',
    }])
  })

  it('moves the mark of its sender, so that a copy of it is no other contact', async () => {
    const { message, deliver, replays, committed, offsets } =
      await createScenario({ marks: finishedTo(3) })
    await deliver(asReplay(await message(4, { ...old, sequence: 7 })),
      await message(5, { sequence: 7 }), await message(6, { sequence: 8 }))
    await committed(7)
    expect([offsets(), replays]).toEqual([[[1, 6]], [-1, 5]])
  })

  it('is reported when it is answered, dead again, or was sent to another partition', async () => {
    const { partner, message, deliver, reports, sent, dead } =
      await createScenario({ marks: finishedTo(3) })
    await deliver(asReplay(await message(4, { ...old, service: 'fax' })),
      asReplay(await message(5, { partition: 2 })),
      { ...asReplay(await message(6, old)), value: Buffer.from('garbage') })
    expect(reports.map(({ action, reason }) => `${action}, ${reason}`)).toEqual([
      'replayed, answered: unknown_service',
      'ignored, the contact was sent to another partition',
      'replayed, dead again: undecodable',
    ])
    expect([sent.length, dead.length]).toEqual([1, 1])
    expect((await openSent(partner, sent[0]!)).resultId).toBe(deriveResultId(partner.name, 0, 1))
  })

  it.each([
    ['is not signed', { signed: 'no' }],
    ['was signed long ago', { replay_at: String(NOW_MS - 9 * DAY_MS) }],
    ['lacks the first offset', { replay_offset: 'x' }],
  ])('is any other copy if it %s', async (_, headers) => {
    const { message, deliver, reports, replays, buffered } =
      await createScenario({ marks: marked(3, 3) })
    await deliver(asReplay(await message(4, { sequence: 1 }), headers))
    expect([reports, buffered.used(), replays]).toEqual([[], 0, [-1, 4]])
  })

  it('is reported as taken when a crash kept the report of its job', async () => {
    const { message, deliver, reports, requested, committed } =
      await createScenario({ marks: marked(3, 3), position: 4 })
    await deliver(asReplay(await message(4, old)))
    await committed(5)
    expect([requested, reports]).toMatchObject([[], [{ letter: '0:6', action: 'replayed' }]])
  })
})
