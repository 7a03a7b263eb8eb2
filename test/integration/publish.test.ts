import { beforeEach, describe, expect, it } from 'vitest'
import { OrganizationErasedError } from '../../services/accounts/organization-keys.ts'
import { packChecks } from '../../services/cache/evidence.ts'
import type { Job } from '../../services/jobs/job.ts'
import { listColumns } from '../../services/jobs/results/columns.ts'
import {
  feedCells, type ResultTarget,
} from '../../services/jobs/results/partner-results.ts'
import { LostResultsError } from '../../services/jobs/results/results.ts'
import {
  createPublishProgress, createPublishStage, type PublishDeps,
} from '../../services/publish/main.ts'
import type { Decision, Incoming } from '../../services/runtime/engine/stage.ts'
import { InfrastructureError } from '../../services/runtime/platform/errors.ts'
import { eventually } from '../support/eventually.ts'
import { startLockedRedis } from '../support/redis/redis.ts'

const { redis } = await startLockedRedis()
const progress = createPublishProgress(redis)
beforeEach(async () => { await redis.flushall() })

type FeedRows =
  ReturnType<PublishDeps['results']['feedRows']> extends AsyncIterable<infer Rows> ? Rows : never
type ContactResult = Parameters<PublishDeps['partnerResults']['send']>[1][number]

const key = Buffer.alloc(32)
const find = async () => ({ types: 'json' } as const)
const columns = listColumns('whatsapp')
const row = (number: number) => columns.map(name => {
  if (name === 'row') return String(number)
  return name === 'status' ? 'valid' : ''
})
const first = {
  rows: [row(1), row(2)], contacts: { offsets: [7, 9], references: ['a', 'b'] },
}
const second = { rows: [row(3)], contacts: { offsets: [12], references: ['c'] } }
const lost = { rows: [row(1)], contacts: undefined }

const partition = { topic: 'jobs.settled', partition: 0 }
const tenant = 'org_1.live'
const newMessage = (offset: number) => ({
  value: { tenant, job: `job_${offset}` },
  raw: { ...partition, offset: BigInt(offset), timestampMs: 5_000 + offset },
}) as Incoming<'jobs.settled'>
const newJob = (id: string, partner = 'acme') =>
  ({ id, tenant, service: 'whatsapp', feed: { partner, partition: 2 } }) as Job
const message = newMessage(1)
const { signal } = new AbortController()
const publishedPieces = () => progress.read(tenant, 'job_1')

/** Results that a stream of chunks has, or fails with. */
async function * read (pieces: readonly (FeedRows | Error)[]): AsyncIterable<FeedRows> {
  for (const piece of pieces) {
    if (piece instanceof Error) throw piece
    yield piece
  }
}

/** A stage whose jobs have these results, all of which are sent; what it did. */
function createScenario (
  pieces: readonly (FeedRows | Error)[] = [first], change: Partial<PublishDeps> = {}
) {
  const sent: ContactResult[] = []
  const targets: ResultTarget[] = []
  const failures: unknown[] = []
  const stage = createPublishStage({
    partners: { keysOf: async () => [key], find },
    findJob: async (_tenant, id) => newJob(id),
    findArchived: async (_tenant, id) => ({ job: newJob(id), manifest: [] }),
    results: { feedRows: () => read(pieces) },
    partnerResults: {
      send: async (target, results) => {
        targets.push(target)
        sent.push(...results)
      },
    },
    progress,
    isDeleted: async () => false,
    topicCheckMs: 60_000,
    batch: 10,
    stalledAfterMs: 60_000,
    onRetry: error => { failures.push(error) },
    ...change,
  })
  /** What is decided about a message, at once or when its job is published. */
  const decide = async (incoming = message): Promise<unknown> => {
    const [decision] = await stage.decide([incoming], signal)
    return decision ?? await eventually(async () => {
      const [flushed] = await stage.flushHeld?.(partition) ?? []
      expect(flushed).toBeDefined()
      return flushed
    })
  }
  return { stage, decide, sent, targets, failures }
}

const finished = { completes: [message], emits: [] }

describe('publish', () => {
  it('sends one result per contact, under the reference of the partner', async () => {
    const { sent, targets, decide } = createScenario([first, second])
    expect(await decide()).toEqual(finished)
    const cells = { status: 'valid', job: 'job_1' }
    expect(sent).toEqual([
      { offset: 7, reference: 'a', cells }, { offset: 9, reference: 'b', cells },
      { offset: 12, reference: 'c', cells },
    ])
    expect(targets[0]).toEqual({ partner: 'acme', partition: 2, key, service: 'whatsapp' })
  })

  it('sends nothing for jobs of the REST API, which it does not read', async () => {
    const { decide } = createScenario([], { findJob: async () => { throw new Error('was read') } })
    const other = { ...message, value: { ...message.value, partner: '' } }
    expect(await decide(other)).toEqual({ completes: [other], emits: [] })
  })

  it.each<[string, readonly (FeedRows | Error)[], Partial<PublishDeps>, string, sent: number]>([
    ['no record in any store', [first], { findJob: async () => undefined }, 'job_lost', 0],
    ['lost contacts', [lost, first], {}, 'contacts_lost', 2],
    ['lost results', [new LostResultsError('gone')], {}, 'results_lost', 0],
    ['an unknown partner', [first], { partners: { keysOf: async () => undefined, find } },
      'unknown_partner', 0],
    ['a deleted topic', [first], {
      partnerResults: {
        send: (_target, _results, signal) => new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason))
        }),
      },
      isDeleted: async () => true,
      topicCheckMs: 1,
    }, 'partner_topic_deleted', 0],
    ['no archived record', [first], { findArchived: async () => undefined }, 'publish_failed', 0],
    ['a failure that lasts', [new Error('a block is missing')], {}, 'publish_failed', 0],
  ])('makes a dead letter of a job with %s', async (...[, pieces, change, dead, count]) => {
    const { decide, sent, failures } = createScenario(pieces, change)
    expect([await decide(), sent.length]).toEqual([{ ...finished, dead }, count])
    expect(failures).toHaveLength(dead === 'publish_failed' ? 3 : 0)
  })

  it('has nothing to publish of an erased organization', async () => {
    const keysOf = async () => { throw new OrganizationErasedError('org_1') }
    const { decide, failures } = createScenario([first], { partners: { keysOf, find } })
    expect([await decide(), failures]).toEqual([finished, []])
  })

  it('retries an outage until it ends', async () => {
    const outages = Array.from({ length: 5 }, () => new InfrastructureError('away'))
    const feedRows = () => read([outages.shift() ?? first])
    const { decide, failures } = createScenario([], { results: { feedRows } })
    expect([await decide(), failures.length]).toEqual([finished, 5])
  })
})

/** Sends that wait until the test acknowledges those of a partner. */
function createSlowTopics () {
  const sent: string[] = []
  const waiting = new Map<string, PromiseWithResolvers<void>>()
  const acknowledgement = (partner: string) => {
    const pending = waiting.get(partner) ?? Promise.withResolvers<void>()
    waiting.set(partner, pending)
    return pending
  }
  const send = async ({ partner }: ResultTarget, [result]: readonly ContactResult[]) => {
    sent.push(`${partner} ${String(result?.cells['job'])}`)
    await acknowledgement(partner).promise
  }
  const acknowledge = (partner: string) => acknowledgement(partner).resolve()
  return { sent, acknowledge, partnerResults: { send } }
}

describe('a slow partner topic', () => {
  const partners = ['slow', 'slow', 'acme', 'globex']
  const findJob = async (_tenant: string, id: string) =>
    newJob(id, partners[Number(id.split('_')[1])])

  it('holds the jobs of its partner only', async () => {
    const { sent, acknowledge, partnerResults } = createSlowTopics()
    const { stage } = createScenario([first], { findJob, partnerResults })
    const messages = [0, 1, 2, 3].map(newMessage)
    expect(await stage.decide(messages, signal)).toEqual([])
    await eventually(() => expect(sent).toHaveLength(3))
    acknowledge('acme')
    acknowledge('globex')
    const decided: Decision<'publish'>[] = []
    const flushed = async (count: number) => await eventually(async () => {
      decided.push(...await stage.flushHeld?.(partition) ?? [])
      expect(decided).toHaveLength(count)
    })
    await flushed(2)
    expect(decided.flatMap(({ completes }) => completes)).toEqual(messages.slice(2))
    expect(stage.heldSinceMs?.()).toBe(5_000)
    acknowledge('slow')
    await flushed(4)
    expect(stage.heldSinceMs?.()).toBe(Infinity)
    expect(sent.filter(result => result.startsWith('slow'))).toEqual(['slow job_0', 'slow job_1'])
  })

  it('takes no slot from other partners once it is stalled', async () => {
    const { sent, partnerResults } = createSlowTopics()
    const change = { findJob, partnerResults, batch: 1, stalledAfterMs: 1 }
    await createScenario([first], change).stage.decide([newMessage(0), newMessage(2)], signal)
    await eventually(() => expect(sent).toEqual(['slow job_0', 'acme job_2']))
  })

  it('is forgotten in the next generation of the group', async () => {
    const { partnerResults, acknowledge } = createSlowTopics()
    const ended = new AbortController()
    const { stage, decide } = createScenario([first], { findJob, partnerResults })
    await stage.decide([newMessage(0)], ended.signal)
    ended.abort()
    stage.forget()
    acknowledge('slow')
    expect(await stage.flushHeld?.(partition)).toEqual([])
    expect(await decide(newMessage(0))).toMatchObject({ completes: [newMessage(0)] })
  })

  it('gets no job while the stage is paused', async () => {
    const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
    const gate = { isOpen: () => false, opened: () => resumed }
    const { sent, stage } = createScenario([first], { gate })
    await stage.decide([message], signal)
    await new Promise(resolve => setImmediate(resolve))
    expect(sent).toEqual([])
    resume()
    // Its progress is written after the results, and must not come into the next test.
    await eventually(async () => expect(await stage.flushHeld?.(partition)).toHaveLength(1))
    expect(sent).toHaveLength(2)
  })
})

describe('a job that is settled or delivered again', () => {
  it('is not published twice', async () => {
    const { decide, sent } = createScenario([first, second])
    const again = { ...newMessage(2), value: message.value }
    expect(await decide()).toEqual(finished)
    expect(await decide(again)).toMatchObject({
      completes: [again], ignored: 'its results were published before',
    })
    expect(sent.map(({ offset }) => offset)).toEqual([7, 9, 12])
  })

  it('is published from the first piece on that was not acknowledged', async () => {
    const { promise: fails, reject: fail } = Promise.withResolvers<void>()
    fails.catch(() => {})
    const batches: number[] = []
    const { decide } = createScenario([first, second], {
      partnerResults: {
        send: async (_target, { length }) => {
          batches.push(length)
          if (batches.length === 2) await fails
        },
      },
    })
    const deciding = decide()
    await eventually(() => expect(batches).toEqual([2, 1]))
    expect(await publishedPieces()).toBe(1)
    fail(new InfrastructureError('away'))
    expect([await deciding, batches]).toEqual([finished, [2, 1, 1]])
  })

  it('is published again from a piece on whose contacts were lost', async () => {
    const { decide } = createScenario([first, lost, second])
    expect(await decide()).toMatchObject({ dead: 'contacts_lost' })
    expect(await publishedPieces()).toBe(1)
  })
})

it('a published result has the columns that are not blank, the checks made, and its job', () => {
  const names = ['row', 'input', 'status', 'source', 'duplicate_of']
  const target = { job: 'job_1', types: 'json' } as const
  expect(feedCells(names, ['4', '', 'valid', 'live', '1', ''], target))
    .toEqual({ status: 'valid', source: 'live', job: 'job_1' })
  const evidence = String(packChecks({ lists: 'passed', domain: 'failed' }))
  expect(feedCells(names, ['4', 'a', 'invalid', 'cache', '', evidence], target).checks)
    .toEqual({ syntax: 'passed', lists: 'passed', domain: 'failed' })
  expect(feedCells(names, ['4', '?', 'invalid', 'preflight', '', ''], target).checks)
    .toEqual({ syntax: 'failed' })
  expect(feedCells(names, ['4', 'a', 'invalid', 'preflight', '', '0'], target).checks)
    .toEqual({ syntax: 'passed' })
})

it('a published result has the types of JSON results, or texts as its partner gets', () => {
  const names = ['source', 'confidence', 'free', 'role', 'mcc']
  const row = ['live', '90', 'true', 'false', '001', '']
  expect(feedCells(names, row, { job: 'job_1', types: 'json' })).toEqual({
    source: 'live', confidence: 90, free: true, role: false, mcc: '001', job: 'job_1',
  })
  expect(feedCells(names, row, { job: 'job_1', types: 'text' })).toEqual({
    source: 'live', confidence: '90', free: 'true', role: 'false', mcc: '001', job: 'job_1',
  })
})
