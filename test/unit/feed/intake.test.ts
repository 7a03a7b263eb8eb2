import { describe, expect, it } from 'vitest'
import { openResult, resultIdOf } from '../../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../../schemas/types.ts'
import type { OutgoingMessage, RawMessage } from '../../../services/runtime/kafka/bus.ts'
import type { ReplayOutcome } from '../../../services/runtime/engine/dead-letters.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../../support/kafka/local-schemas.ts'
import { connectRejections } from '../../../services/feed/contact.ts'
import {
  createIntake, createPartition, type FeedJobRequest, type IntakeDeps, type JobOutcome,
} from '../../../services/feed/intake.ts'
import { createCapacity } from '../../../services/runtime/platform/limits.ts'
import type { Marks, ReplayGuardDeps } from '../../../services/feed/replay-guard.ts'
import { SENDER, sealedContact } from '../../support/feeds/feeds.ts'

const codec = createCodec(localSource())
const key = Buffer.alloc(32, 3)
const topic = 'feeds.acme.submitted'
const NOW_MS = 1_790_000_000_000
const common = {
  partner: 'acme',
  keys: async () => [key] as const,
  clock: { now: () => NOW_MS },
  codec,
  isConfigured: () => true,
  onRetry: () => {},
}
const turn = (value?: string) => new Promise(resolve => setImmediate(resolve, value))
const partitionDefaults = {
  batchLimits: { contacts: 3, ageMs: 60_000 },
  failContact: async () => {},
  pause: async () => {},
  fail: (error: unknown) => { throw error },
  now: () => 0,
}

async function raw (offset: number, change: Partial<FeedContact> = {}): Promise<RawMessage> {
  const contact = sealedContact(key, `input ${offset}`, {
    partner: 'acme', sequence: offset, partition: 1, sentAt: NOW_MS, ...change,
  })
  const value = await codec.encode('feeds.submitted-value', { ...contact, ...change })
  const at = { topic, partition: 1, offset: BigInt(offset), timestampMs: 0 }
  return { ...at, key: Buffer.from('k'), value, headers: {} }
}

/** No sender has a mark, and everything up to this offset is finished. */
const finishedTo = (offset: number): Given => ({ marks: { offset, senders: new Map() } })

const marked = (offset: number, sequence: number): Marks =>
  ({ offset, senders: new Map([[SENDER, { sequence, sentAt: NOW_MS }]]) })

type Given = {
  readonly positions?: ReadonlyMap<string, number>
  readonly outages?: Error[]
  readonly gate?: IntakeDeps['gate']
  readonly marks?: Marks
  /** Whether Redis still has the marks that it gave. */
  readonly keepsMarks?: boolean
}

/** An intake with one partition; job requests stay open until `take`. */
/** What the intake did. */
const newRecords = () => ({
  replays: [] as unknown[],
  saved: [] as Parameters<ReplayGuardDeps['write']>[0][],
  reports: [] as ReplayOutcome[],
  written: [] as number[],
  failures: [] as string[],
  sent: [] as OutgoingMessage[],
  dead: [] as unknown[],
  requests: [] as FeedJobRequest[],
  commits: [] as bigint[],
})

function createScenario ({
  positions = new Map(), outages = [], gate, marks = { offset: -1, senders: new Map() },
  keepsMarks = true,
}: Given = {}) {
  const records = newRecords()
  const { replays, saved, reports, written, failures, sent, dead, requests, commits } = records
  const buffered = createCapacity(100)
  const lost = new AbortController()
  let answer = (_outcome: JobOutcome) => {}
  const send = async (messages: readonly OutgoingMessage[]) => {
    const outage = outages.shift()
    if (outage !== undefined) throw outage
    sent.push(...messages)
  }
  const bus = { producer: () => ({ send, close: async () => {} }) }
  const takeIn = createIntake({
    ...common,
    deadLetters: {
      send: async decisions => { dead.push(...decisions.flat()) },
      report: async () => { throw new Error('a partition reports') },
    },
    isReplay: message => message.headers['signed'] === 'yes',
    rejections: connectRejections({ bus, codec }, { now: () => 0 }),
    metrics: { count: name => { if (name === 'feed_replays_total') replays.push(name) } },
    onReplay: replay => { replays.push(replay.offset) },
    gate,
    openPartition: ({ partition }) => createPartition({
      ...partitionDefaults,
      topicPartition: { topic, partition },
      signal: lost.signal,
      positions: async () => positions,
      marks: {
        read: async () => marks,
        write: async change => saved.push(change) > 0 && keepsMarks,
        writeDead: async offsets => { written.push(...offsets) },
      },
      clock: common.clock,
      reportReplays: async outcomes => {
        reports.push(...outcomes)
        commits.push(-1n)
      },
      fail: error => { failures.push(String(error)) },
      buffered,
      submit: request => new Promise(resolve => {
        requests.push(request)
        answer = resolve
      }),
    }),
  })
  const of = {
    topic,
    partition: 1,
    more: () => [],
    signal: lost.signal,
    commit: (next: bigint) => { commits.push(next) },
    redeliver: () => {},
  }
  const deliver = (messages: readonly RawMessage[]) => takeIn({ ...of, messages })
  const take = async () => {
    answer({ kind: 'taken', job: 'job_1' })
    await turn()
  }
  return { ...records, deliver, buffered, lost, take }
}

describe('the intake of a feed', () => {
  it('submits contacts at once before an end marker', async () => {
    const { deliver, requests, sent, commits, buffered, take } = createScenario()
    await deliver([await raw(0), await raw(1, { reference: '', sealed: null, end: true })])
    expect(requests).toMatchObject([{ offsets: [0], inputs: ['input 0'], references: ['c0'] }])
    expect([commits, buffered.used()]).toEqual([[], 1])
    await take()
    expect([commits, buffered.used(), sent]).toEqual([[2n], 0, []])
  })

  it('answers invalid contacts, also after an outage', async () => {
    const outages = [new InfrastructureError('away')]
    const { deliver, sent, commits } = createScenario({ ...finishedTo(5), outages })
    await deliver([await raw(6, { service: 'fortune-telling' })])
    const [message] = sent
    const result = await codec.decode('feeds.finished', message!.value!) as FeedResult
    const { resultId, reference } = result
    expect([message?.topic, message?.key, reference]).toEqual(['feeds.acme.finished', 'c6', 'c6'])
    expect(resultId).toBe(resultIdOf('acme', 1, 6))
    const at = '1970-01-01T00:00:00.000Z'
    expect(openResult([key], { partner: 'acme', reference, resultId }, result.sealed)).toEqual({
      status: 'invalid',
      reason: 'unknown_service',
      source: 'preflight',
      confidence: '100',
      checked_at: at,
      expires_at: at,
    })
    expect(commits).toEqual([7n])
  })

  it('releases the memory of contacts when the partition is lost', async () => {
    const { deliver, buffered, lost, take, commits, requests } = createScenario()
    await deliver([await raw(0), await raw(1), await raw(2)])
    expect(requests).toHaveLength(1)
    lost.abort()
    expect(buffered.used()).toBe(0)
    await take()
    expect([commits, buffered.used()]).toEqual([[], 0])
  })
})

describe('a replayed contact of a feed', () => {
  it('becomes no row, gets no answer and is counted', async () => {
    const { deliver, requests, sent, commits, take, replays } = createScenario()
    const invalid = { service: 'fortune-telling' }
    await deliver([await raw(0), await raw(1, invalid), await raw(2)])
    await deliver([
      await raw(3, { sequence: 0 }), await raw(4, { ...invalid, sequence: 1 }),
      await raw(5, { end: true }),
    ])
    expect(requests.map(({ offsets }) => offsets)).toEqual([[0, 2, 5]])
    await take()
    expect([sent.length, commits.at(-1)]).toEqual([1, 6n])
    expect(replays).toEqual(['feed_replays_total', 3, 'feed_replays_total', 4])
  })

  it('leaves no mark if it is not authentic', async () => {
    const { deliver, requests, sent } = createScenario()
    const forged = { sequence: 9, sealed: Buffer.alloc(60, 2) }
    await deliver([await raw(0, forged), await raw(1, { sequence: 1, end: true })])
    expect([requests.length, sent.length]).toEqual([1, 1])
  })
})

describe('the sender marks of a feed', () => {
  it('suppress a second answer to a rejected contact that its cursor has passed', async () => {
    const { deliver, sent, commits } = createScenario({ positions: new Map([['whatsapp||', 4]]) })
    await deliver([await raw(0, { sentAt: 1 }), await raw(1, { sealed: Buffer.alloc(60) })])
    expect([sent, commits]).toEqual([[], [2n]])
  })
})

/** A message that an operator replays from a letter, which was at offset 1 first. */
const replayed = async (offset: number, change: Partial<FeedContact> = {}, headers = {}) => ({
  ...await raw(offset, change),
  headers: {
    signed: 'yes',
    replay_of: '0:6',
    replay_offset: '1',
    replay_dead_at: String(NOW_MS - 20 * DAY_MS),
    replay_at: String(NOW_MS),
    ...headers,
  },
})
const DAY_MS = 86_400_000
const old = { sequence: 1, sentAt: NOW_MS - 20 * DAY_MS }
const taken = { letter: '0:6', action: 'replayed', reason: 'taken by a job', job: 'job_1' }

describe('a letter that is read again before its offset is committed', () => {
  it('is neither a contact nor a second letter, though it is decodable by then', async () => {
    const first = createScenario(finishedTo(3))
    await first.deliver([await raw(4), { ...await raw(5), value: Buffer.from('garbage') }])
    expect([first.dead.length, first.written]).toEqual([1, [5]])
    const marks = { offset: 3, senders: new Map([['dead:5', { sequence: 0, sentAt: 0 }]]) }
    const { deliver, dead, requests, take, saved } = createScenario({ marks })
    await deliver([await raw(4), await raw(5), await raw(6), await raw(7)])
    expect(requests.map(({ offsets }) => offsets)).toEqual([[4, 6, 7]])
    await take()
    expect([dead, saved.map(({ forgotten }) => forgotten)]).toEqual([[], [['dead:5']]])
  })
})

describe('the replay of a letter', () => {
  it('is taken below the mark of its sender, as its first message, however old', async () => {
    const { deliver, requests, take, reports, commits, replays } =
      createScenario({ marks: marked(3, 3) })
    await deliver([await replayed(4, old), await raw(5), await raw(6)])
    expect(requests.map(({ to, offsets }) => [to, offsets])).toEqual([[6, [1, 5, 6]]])
    expect(reports).toEqual([])
    await take()
    expect(reports).toEqual([taken])
    // Reported before its offset is committed.
    expect(commits).toEqual([-1n, 7n])
    expect(replays).toEqual([])
  })

  it('is taken once, whichever letter and copy it comes from', async () => {
    const { deliver, requests, take, reports } = createScenario({ marks: marked(3, 3) })
    const copy = await raw(6, old)
    await deliver([await replayed(4, old), await replayed(5, old, { replay_of: '0:7' }), copy])
    await deliver([await raw(7), await raw(8)])
    expect(requests.map(({ offsets }) => offsets)).toEqual([[1, 7, 8]])
    await take()
    expect(reports.toSorted((a, b) => a.letter < b.letter ? -1 : 1)).toEqual([taken, {
      letter: '0:7', action: 'ignored', reason: 'an earlier replay of the contact was taken',
    }])
  })

  it('moves the mark of its sender, so that a copy of it is no other contact', async () => {
    const { deliver, requests, replays } = createScenario(finishedTo(3))
    await deliver([await replayed(4, { ...old, sequence: 7 }), await raw(5, { sequence: 7 })])
    await deliver([await raw(6, { sequence: 8 }), await raw(7, { sequence: 9 })])
    expect(requests.map(({ offsets }) => offsets)).toEqual([[1, 6, 7]])
    expect(replays).toEqual(['feed_replays_total', 5])
  })

  it('is reported when it is answered, dead again, or was sent to another partition', async () => {
    const { deliver, reports, sent, dead } = createScenario(finishedTo(3))
    const garbage = { ...await replayed(6, old), value: Buffer.from('garbage') }
    await deliver([
      await replayed(4, { ...old, service: 'fax' }), await replayed(5, { partition: 2 }), garbage,
    ])
    expect(reports.map(({ action, reason }) => `${action}, ${reason}`)).toEqual([
      'replayed, answered: unknown_service',
      'ignored, the contact was sent to another partition',
      'replayed, dead again: undecodable',
    ])
    expect([sent.length, dead.length]).toEqual([1, 1])
    const result = await codec.decode('feeds.finished', sent[0]!.value!) as FeedResult
    expect(result.resultId).toBe(resultIdOf('acme', 1, 1))
  })

  it.each([
    ['is not signed', { signed: 'no' }],
    ['was signed long ago', { replay_at: String(NOW_MS - 9 * DAY_MS) }],
    ['lacks the first offset', { replay_offset: 'x' }],
  ])('is any other copy if it %s', async (_, headers) => {
    const { deliver, reports, replays, buffered } = createScenario({ marks: marked(3, 3) })
    await deliver([await replayed(4, { sequence: 1 }, headers)])
    expect([reports, buffered.used()]).toEqual([[], 0])
    expect(replays).toEqual(['feed_replays_total', 4])
  })

  it('is reported as taken when a crash kept the report of its job', async () => {
    const { deliver, reports, requests } = createScenario({
      marks: marked(3, 3), positions: new Map([['whatsapp||', 4]]),
    })
    await deliver([await replayed(4, old)])
    await turn()
    expect(requests).toEqual([])
    expect(reports).toMatchObject([{ letter: '0:6', action: 'replayed' }])
  })
})
