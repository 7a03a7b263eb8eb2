import { describe, expect, it } from 'vitest'
import { openResult, resultIdOf, sealContact } from '../../../schemas/feeds/seal.ts'
import type { FeedContact, FeedResult } from '../../../schemas/types.ts'
import type { Delivery, OutgoingMessage, RawMessage } from '../../../services/lib/bus.ts'
import { InfrastructureError } from '../../../services/lib/errors.ts'
import { createCodec, localSource } from '../../../services/lib/registry.ts'
import { createPartnerResults } from '../../../services/records/partner-results.ts'
import { createFaults } from '../../../services/feed/faults.ts'
import { createIntake, type IntakeParts } from '../../../services/feed/intake.ts'
import { createPartition } from '../../../services/feed/partition.ts'
import { createRoom } from '../../../services/feed/room.ts'
import type { JobOutcome, JobRequest } from '../../../services/feed/cursor.ts'

const codec = createCodec(localSource())
const key = Buffer.alloc(32, 3)
const topic = 'feeds.acme.submitted'
const common = {
  partner: 'acme',
  key,
  codec,
  isConfigured: () => true,
  metrics: { count: () => {} },
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
  const place = {
    reference: `c${offset}`, service: 'whatsapp', countryCode: '', forceFresh: false, ...change,
  }
  const sealed = sealContact(key, { partner: 'acme', ...place }, `input ${offset}`)
  const contact = { sealed, end: false, ...place, ...change }
  const value = await codec.encode('feeds.submitted-value', contact)
  const at = { topic, partition: 1, offset: BigInt(offset), timestampMs: 0 }
  return { ...at, key: Buffer.from('k'), value, headers: {} }
}

/** What takes contacts into its partition; jobs are answered only when a test says so. */
function world (
  positions: ReadonlyMap<string, number> = new Map(), outages: Error[] = [],
  gate?: IntakeParts['gate']
) {
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
    gate,
    openPartition: ({ partition }) => createPartition({
      ...quiet,
      place: { topic, partition },
      signal: lost.signal,
      positions: async () => positions,
      held,
      submit: request => {
        requests.push(request)
        return new Promise(resolve => { answer = resolve })
      },
    }),
  })
  const commit: Delivery['commit'] = async next => { commits.push(next) }
  const deliver = (messages: readonly RawMessage[]) =>
    intake.onDelivery({ topic, partition: 1, messages, signal: lost.signal, commit })
  const take = async () => {
    answer({ kind: 'taken' })
    await turn()
  }
  return { deliver, sent, dead, requests, commits, held, lost, take }
}

describe('contacts that arrive', () => {
  it('are committed only once a job has them', async () => {
    const { deliver, requests, commits, held, take } = world()
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
    const { deliver, requests, held } = world(undefined, undefined, gate)
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
    const { deliver, requests, commits } = world(new Map([['whatsapp||', 1]]))
    await deliver([await raw(0), await raw(1)])
    expect([requests, commits]).toEqual([[], [2n]])
  })

  it('get their answer at once when they can be no row', async () => {
    const { deliver, sent, commits } = world()
    await deliver([await raw(6, { service: 'fortune-telling' })])
    const [message] = sent
    const result = await codec.decode('feeds.finished', message!.value!) as FeedResult
    const { resultId, reference } = result
    expect([message?.topic, message?.key, reference]).toEqual(['feeds.acme.finished', 'c6', 'c6'])
    expect(resultId).toBe(resultIdOf('acme', 1, 6))
    const at = '1970-01-01T00:00:00.000Z'
    expect(openResult(key, { partner: 'acme', reference, resultId }, result.sealed)).toEqual({
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
    const { deliver, sent, commits } = world(new Map(), [new InfrastructureError('away')])
    await deliver([await raw(6, { service: 'fortune-telling' })])
    expect([sent.map(message => message.key), commits]).toEqual([['c6'], [7n]])
  })

  it('are answered however long the names are that they came with', async () => {
    const { deliver, sent, commits } = world()
    const long = 'x'.repeat(600_000)
    await deliver([await raw(6, { reference: long }), await raw(7, { service: long })])
    const results = await Promise.all(sent.map(async ({ value }) =>
      await codec.decode('feeds.finished', value!) as FeedResult))
    const cut = 'x'.repeat(200)
    expect(results.map(({ reference, service }) => [reference, service]))
      .toEqual([[cut, 'whatsapp'], ['c7', cut]])
    expect(sent.map(message => message.key)).toEqual([resultIdOf('acme', 1, 6), 'c7'])
    const [{ resultId, sealed } = expect.fail('no result')] = results
    expect(openResult(key, { partner: 'acme', reference: cut, resultId }, sealed))
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
