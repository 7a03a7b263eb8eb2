import { describe, expect, it } from 'vitest'
import { openResult, resultIdOf } from '../../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../../schemas/types.ts'
import type { OutgoingMessage, RawMessage } from '../../../services/lib/bus.ts'
import { InfrastructureError } from '../../../services/lib/errors.ts'
import { createCodec, localSource } from '../../../services/lib/registry.ts'
import { createPartnerResults } from '../../../services/records/partner-results.ts'
import { createFaults } from '../../../services/feed/faults.ts'
import { createIntake, type IntakeParts } from '../../../services/feed/intake.ts'
import type { Marks, MarksChange } from '../../../services/feed/marks.ts'
import { createPartition } from '../../../services/feed/partition.ts'
import { createRoom } from '../../../services/feed/room.ts'
import type { JobOutcome, JobRequest } from '../../../services/feed/cursor.ts'
import { SENDER, sealedContact } from '../../support/feeds.ts'

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
const quiet = {
  rules: { limit: 3, ageMs: 60_000 },
  giveUp: async () => {},
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

type Given = {
  readonly positions?: ReadonlyMap<string, number>
  readonly outages?: Error[]
  readonly gate?: IntakeParts['gate']
  readonly marks?: Marks
  /** Whether Redis still has the marks that it gave. */
  readonly keepsMarks?: boolean
}

/** What takes contacts into its partition; jobs are answered only when a test says so. */
function world ({
  positions = new Map(), outages = [], gate, marks = { offset: -1, senders: new Map() },
  keepsMarks = true,
}: Given = {}) {
  const told: unknown[] = []
  const saved: MarksChange[] = []
  const failures: string[] = []
  const sent: OutgoingMessage[] = []
  const dead: unknown[] = []
  const requests: JobRequest[] = []
  const commits: bigint[] = []
  const held = createRoom(100)
  const lost = new AbortController()
  let answer = (_outcome: JobOutcome) => {}
  const results = createPartnerResults({
    codec,
    producerOf: () => ({
      send: async messages => {
        const outage = outages.shift()
        if (outage !== undefined) throw outage
        sent.push(...messages)
      },
    }),
  })
  const intake = createIntake({
    ...common,
    deadLetters: { send: async decisions => { dead.push(...decisions.flat()) } },
    faults: createFaults({ results, now: () => 0 }),
    metrics: { count: name => { if (name === 'feed_replays_total') told.push(name) } },
    onReplay: replay => { told.push(replay.offset) },
    gate,
    openPartition: ({ partition }) => createPartition({
      ...quiet,
      place: { topic, partition },
      signal: lost.signal,
      positions: async () => positions,
      marks: {
        read: async () => marks,
        write: async change => saved.push(change) > 0 && keepsMarks,
      },
      clock: common.clock,
      fail: error => { failures.push(String(error)) },
      held,
      submit: request => new Promise(resolve => {
        requests.push(request)
        answer = resolve
      }),
    }),
  })
  const of = { topic, partition: 1, more: () => [], signal: lost.signal }
  const commit = async (next: bigint) => { commits.push(next) }
  const deliver = (messages: readonly RawMessage[]) =>
    intake.onDelivery({ ...of, messages, commit })
  const take = async () => {
    answer({ kind: 'taken' })
    await turn()
  }
  return { deliver, sent, dead, requests, commits, held, lost, take, told, saved, failures }
}

describe('contacts that arrive', () => {
  it('are committed only once a job has them', async () => {
    const { deliver, requests, commits, held, take } = world(finishedTo(3))
    await deliver([await raw(4), await raw(5)])
    expect([requests, commits, held.taken()]).toEqual([[], [], 2])
    await deliver([await raw(7)])
    expect(requests.map(({ from, to }) => [from, to])).toEqual([[-1, 7]])
    expect(commits).toEqual([])
    await take()
    expect([commits, held.taken()]).toEqual([[8n], 0])
  })

  it('wait while the stage is paused, and those that wait are read once', async () => {
    const { promise: opened, resolve: open } = Promise.withResolvers<void>()
    const gate = { isOpen: () => false, opened: () => opened }
    const { deliver, requests, held } = world({ gate })
    const delivering = deliver([await raw(0), await raw(1), await raw(2)])
    expect(await Promise.race([delivering, turn('waits')])).toBe('waits')
    expect([requests, held.taken()]).toEqual([[], 0])
    open()
    await delivering
    expect(requests.map(({ from, to }) => [from, to])).toEqual([[-1, 2]])
  })

  it('hold back the commit of later ones of other services', async () => {
    const { deliver, commits, requests, take } = world()
    await deliver([await raw(0, { service: 'telegram' }), await raw(1), await raw(2), await raw(3)])
    expect(requests).toHaveLength(1)
    await take()
    expect(commits).toEqual([])
    await deliver([await raw(4, { service: 'telegram', end: true })])
    await take()
    expect(commits).toEqual([5n])
  })

  it('go at once behind an end', async () => {
    const { deliver, requests, commits, take } = world()
    await deliver([await raw(0), await raw(1, { reference: '', sealed: null, end: true })])
    expect(requests.map(({ offsets }) => offsets)).toEqual([[0]])
    await take()
    expect(commits).toEqual([2n])
  })

  it('that a job has already are finished on sight', async () => {
    const { deliver, requests, commits } = world({ positions: new Map([['whatsapp||', 1]]) })
    await deliver([await raw(0), await raw(1)])
    expect([requests, commits]).toEqual([[], [2n]])
  })

  it('get their answer at once when they can be no row', async () => {
    const { deliver, sent, commits } = world(finishedTo(5))
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

  it('are answered once what is away has come back', async () => {
    const outages = [new InfrastructureError('away')]
    const { deliver, sent, commits } = world({ ...finishedTo(5), outages })
    await deliver([await raw(6, { service: 'fortune-telling' })])
    expect([sent.map(message => message.key), commits]).toEqual([['c6'], [7n]])
  })

  it('are answered however long the names are that they came with', async () => {
    const { deliver, sent, commits } = world(finishedTo(5))
    const long = 'x'.repeat(600_000)
    await deliver([await raw(6, { reference: long }), await raw(7, { service: long })])
    const results = await Promise.all(sent.map(async ({ value }) =>
      await codec.decode('feeds.finished', value!) as FeedResult))
    const cut = 'x'.repeat(200)
    expect(results.map(({ reference, service }) => [reference, service]))
      .toEqual([[cut, 'whatsapp'], ['c7', cut]])
    expect(sent.map(message => message.key)).toEqual([resultIdOf('acme', 1, 6), 'c7'])
    const [{ resultId, sealed } = expect.fail('no result')] = results
    expect(openResult([key], { partner: 'acme', reference: cut, resultId }, sealed))
      .toMatchObject({ reason: 'invalid_reference' })
    expect(commits).toEqual([8n])
  })

  it('that are no messages of a feed at all are dead as they came', async () => {
    const { deliver, dead, commits } = world()
    const message = { ...await raw(0), value: Buffer.from('garbage') }
    await deliver([message, { ...await raw(1), value: null }])
    expect(dead).toEqual([{ raw: message, reason: 'undecodable', cause: 'unreadable' }])
    expect(commits).toEqual([2n])
  })

  it('are forgotten with their partition, and free their room', async () => {
    const { deliver, held, lost, take, commits, requests } = world()
    await deliver([await raw(0), await raw(1), await raw(2)])
    expect(requests).toHaveLength(1)
    lost.abort()
    expect(held.taken()).toBe(0)
    await take()
    expect([commits, held.taken()]).toEqual([[], 0])
  })
})

describe('a replayed contact', () => {
  const marked = (offset: number, sequence: number): Marks =>
    ({ offset, senders: new Map([[SENDER, { sequence, sentAt: NOW_MS }]]) })

  it('becomes no row and gets no answer, and is counted', async () => {
    const { deliver, requests, sent, commits, take, told } = world()
    const faulty = { service: 'fortune-telling' }
    await deliver([await raw(0), await raw(1, faulty), await raw(2)])
    await deliver([
      await raw(3, { sequence: 0 }), await raw(4, { ...faulty, sequence: 1 }),
      await raw(5, { end: true }),
    ])
    expect(requests.map(({ offsets }) => offsets)).toEqual([[0, 2, 5]])
    await take()
    expect([sent.length, commits.at(-1)]).toEqual([1, 6n])
    expect(told).toEqual(['feed_replays_total', 3, 'feed_replays_total', 4])
  })

  it('is recognized in another partition than it was sent to', async () => {
    const { deliver, sent, commits, told } = world()
    await deliver([{ ...await raw(0, { partition: 2 }), partition: 1 }])
    expect([sent, commits, told]).toEqual([[], [1n], ['feed_replays_total', 0]])
  })

  it('is recognized by the marks that were stored before', async () => {
    const { deliver, requests, told } = world({ marks: marked(3, 3) })
    await deliver([await raw(4, { sequence: 2 }), await raw(5, { end: true })])
    expect([requests.map(({ offsets }) => offsets), told.length]).toEqual([[[5]], 2])
  })

  it('is not one that the stored marks had already finished', async () => {
    const { deliver, requests, told, sent, commits } = world({ marks: marked(1, 0) })
    await deliver([await raw(0), await raw(1, { service: 'fortune-telling' })])
    expect([requests, told, sent, commits]).toEqual([[], [], [], [2n]])
  })

  it('leaves no mark when it is not authentic', async () => {
    const { deliver, requests, sent } = world()
    const forged = { sequence: 9, sealed: Buffer.alloc(60, 2) }
    await deliver([await raw(0, forged), await raw(1, { sequence: 1, end: true })])
    expect([requests.length, sent.length]).toEqual([1, 1])
  })
})

describe('the marks', () => {
  it('are stored as of the commit, before it', async () => {
    const { deliver, saved, commits, take } = world()
    await deliver([await raw(0), await raw(1)])
    await deliver([await raw(2)])
    expect([saved, commits]).toEqual([[], []])
    await take()
    const changed = new Map([[SENDER, { sequence: 2, sentAt: NOW_MS }]])
    expect(saved).toEqual([{ since: -1, offset: 2, changed, forgotten: [] }])
    expect(commits).toEqual([3n])
  })

  it('that Redis lost meanwhile end the reading, and nothing is committed', async () => {
    const { deliver, commits, failures } = world({ ...finishedTo(5), keepsMarks: false })
    await deliver([await raw(6, { service: 'fortune-telling' })])
    expect(commits).toEqual([])
    expect(failures).toEqual([expect.stringContaining('feeds.acme.submitted[1] were lost')])
  })

  it('that are missing are rebuilt from the log, which is read from where they end', async () => {
    const { deliver, commits } = world()
    expect(await deliver([await raw(7)])).toEqual({ go: 'again', fromOffset: 0n, afterMs: 0 })
    // The log has a gap: what comes next is what there is.
    expect(await deliver([await raw(5, { service: 'fortune-telling' })])).toEqual({ go: 'next' })
    expect(commits).toEqual([6n])
  })

  it('answer no faulty contact again that its cursor has passed', async () => {
    const { deliver, sent, commits } = world({ positions: new Map([['whatsapp||', 4]]) })
    await deliver([await raw(0, { sentAt: 1 }), await raw(1, { sealed: Buffer.alloc(60) })])
    expect([sent, commits]).toEqual([[], [2n]])
  })
})
