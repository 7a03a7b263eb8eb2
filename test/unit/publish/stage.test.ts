import { describe, expect, it } from 'vitest'
import { columnsOf } from '../../../services/jobs/results/columns.ts'
import { packChecks } from '../../../services/cache/evidence.ts'
import {
  feedCells, type ContactResult, type ResultTarget,
} from '../../../services/jobs/results/partner-results.ts'
import type { FeedRows } from '../../../services/jobs/results/results.ts'
import { LostResultsError } from '../../../services/jobs/results/read-chunks.ts'
import { createPublishStage, type PublishDeps } from '../../../services/publish/stage.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { Decision, Incoming, Stage } from '../../../services/runtime/engine/stage.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { eventually } from '../../support/eventually.ts'

const key = Buffer.alloc(32)
const columns = columnsOf('whatsapp')
const row = (number: number) => columns.map(name => {
  if (name === 'row') return String(number)
  return name === 'status' ? 'valid' : ''
})
const partition = { topic: 'jobs.settled', partition: 0 }
const messageOf = (offset: number) => ({
  value: { tenant: 'org_1.live', job: `job_${offset}` },
  raw: { ...partition, offset: BigInt(offset), timestampMs: 5_000 + offset },
}) as Incoming<'jobs.settled'>
const jobOf = (id: string, partner = 'acme') =>
  ({ id, service: 'whatsapp', feed: { partner, partition: 2 } }) as Job
const message = messageOf(1)
const feedJob = jobOf('job_1')
const contacts = { offsets: [7, 9], references: ['a', 'b'] }
const piece = { rows: [row(1), row(2)], contacts }

async function * from (pieces: readonly (FeedRows | Error)[]): AsyncIterable<FeedRows> {
  for (const piece of pieces) {
    if (piece instanceof Error) throw piece
    yield piece
  }
}

/** A stage with one piece of results per job, all of which are sent. */
function createStage (change: Partial<PublishDeps> = {}) {
  return createPublishStage({
    partners: { keysOf: async () => [key] },
    findJob: async (_tenant, id) => jobOf(id),
    findArchived: async (_tenant, id) => ({ job: jobOf(id), manifest: [] }),
    results: { feedRows: () => from([piece]) },
    partnerResults: { send: async () => {} },
    progress: { read: async () => 0, write: async () => {} },
    isDeleted: async () => false,
    topicCheckMs: 60_000,
    batch: 10,
    stalledAfterMs: 60_000,
    onRetry: () => {},
    ...change,
  })
}

/** What is decided about one message, at once or when it is published. */
async function decide (stage: Stage<'publish'>, one = message) {
  const [decision] = await stage.decide([one], new AbortController().signal)
  if (decision !== undefined) return decision
  return await eventually(async () => {
    const [flushed] = await stage.flushHeld?.(partition) ?? []
    expect(flushed).toBeDefined()
    return flushed
  })
}

async function publish (
  job: Job | undefined, pieces: readonly (FeedRows | Error)[] = [], hasKey = true
) {
  const sent: ContactResult[] = []
  const targets: unknown[] = []
  const stage = createStage({
    partners: { keysOf: async () => hasKey ? [key] : undefined },
    findJob: async () => job,
    findArchived: async () => job === undefined ? undefined : { job, manifest: [] },
    results: { feedRows: () => from(pieces) },
    partnerResults: {
      send: async (target, results) => {
        targets.push(target)
        sent.push(...results)
      },
    },
  })
  return { sent, targets, decision: await decide(stage) }
}

/** Sends that wait until the test acknowledges those of a partner. */
function createSlowTopics () {
  const sent: string[] = []
  const waiting = new Map<string, PromiseWithResolvers<void>>()
  const of = (partner: string) => {
    const found = waiting.get(partner) ?? Promise.withResolvers<void>()
    waiting.set(partner, found)
    return found
  }
  return {
    sent,
    acknowledge: (partner: string) => of(partner).resolve(),
    send: async ({ partner }: ResultTarget, [result]: readonly ContactResult[]) => {
      sent.push(`${partner} ${String(result?.cells['job'])}`)
      await of(partner).promise
    },
  }
}

describe('publish', () => {
  it('sends one result per contact, under the reference of the partner', async () => {
    const { sent, targets, decision } = await publish(feedJob, [
      piece, { rows: [row(3)], contacts: { offsets: [12], references: ['c'] } },
    ])
    const cells = { status: 'valid', job: 'job_1' }
    expect(sent).toEqual([
      { offset: 7, reference: 'a', cells }, { offset: 9, reference: 'b', cells },
      { offset: 12, reference: 'c', cells },
    ])
    expect(targets[0]).toEqual({ partner: 'acme', partition: 2, key, service: 'whatsapp' })
    expect(decision).toEqual({ completes: [message], emits: [] })
  })

  it('sends nothing for jobs of the REST API and for unknown jobs', async () => {
    const { feed: _feed, ...plain } = feedJob
    for (const job of [plain as Job, undefined]) {
      expect(await publish(job)).toEqual({
        sent: [], targets: [], decision: { completes: [message], emits: [] },
      })
    }
  })

  it('reads no job whose event says that it belongs to no partner', async () => {
    const stage = createPublishStage({
      findJob: async () => { throw new Error('was read') },
    } as unknown as PublishDeps)
    const other = { value: { ...message.value, partner: '' } } as Incoming<'jobs.settled'>
    expect(await stage.decide([other], new AbortController().signal))
      .toEqual([{ completes: [other], emits: [] }])
  })

  it('dead-letters a job whose contacts, results or partner are lost', async () => {
    const known = { rows: [row(2)], contacts: { offsets: [1], references: ['b'] } }
    const lost = await publish(feedJob, [{ rows: [row(1)], contacts: undefined }, known])
    expect([lost.sent.length, lost.decision]).toMatchObject([1, { dead: 'contacts_lost' }])
    const unreadable = await publish(feedJob, [new LostResultsError('gone')])
    expect(unreadable.decision).toMatchObject({ dead: 'results_lost' })
    const unknown = await publish(feedJob, [known], false)
    expect(unknown.decision).toMatchObject({ dead: 'unknown_partner' })
  })

  it('dead-letters a job whose partner and result topic are deleted', async () => {
    const answers = [false, true]
    const stage = createStage({
      partnerResults: {
        send: (_of, _results, signal) => new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason))
        }),
      },
      isDeleted: async () => answers.shift() ?? true,
      topicCheckMs: 1,
    })
    expect([await decide(stage), answers]).toMatchObject([{ dead: 'partner_topic_deleted' }, []])
  })

  it('starts no job while the stage is paused', async () => {
    const { promise: resumed, resolve: resume } = Promise.withResolvers<void>()
    const { sent, send, acknowledge } = createSlowTopics()
    const gate = { isOpen: () => false, opened: () => resumed }
    const stage = createStage({ partnerResults: { send }, gate })
    await stage.decide([message], new AbortController().signal)
    await new Promise(resolve => setImmediate(resolve))
    expect(sent).toEqual([])
    resume()
    acknowledge('acme')
    await eventually(() => expect(sent).toEqual(['acme job_1']))
  })

  it('retries an outage until it ends, and another failure three times', async () => {
    const failures: unknown[] = []
    const outages = Array.from({ length: 5 }, () => new InfrastructureError('away'))
    const onRetry = (error: unknown) => { failures.push(error) }
    const away = createStage({
      results: { feedRows: () => from([outages.shift() ?? piece]) }, onRetry,
    })
    expect(await decide(away)).toEqual({ completes: [message], emits: [] })
    expect(failures).toHaveLength(5)
    const broken = createStage({
      results: { feedRows: () => from([new Error('a block is missing')]) }, onRetry,
    })
    expect(await decide(broken)).toMatchObject({ dead: 'publish_failed' })
    expect(failures).toHaveLength(8)
  })
})

describe('a slow partner topic', () => {
  const partners = ['slow', 'slow', 'acme', 'globex']
  const findJob = async (_tenant: string, id: string) =>
    jobOf(id, partners[Number(id.split('_')[1])])
  const signal = new AbortController().signal

  it('holds the jobs of its partner only', async () => {
    const { sent, acknowledge, send } = createSlowTopics()
    const stage = createStage({ findJob, partnerResults: { send } })
    const messages = [0, 1, 2, 3].map(messageOf)
    expect(await stage.decide(messages, signal)).toEqual([])
    await eventually(() => expect(sent).toHaveLength(3))
    acknowledge('acme')
    acknowledge('globex')
    const flushed = async (count: number) => await eventually(async () => {
      decided.push(...await stage.flushHeld?.(partition) ?? [])
      expect(decided).toHaveLength(count)
    })
    const decided: Decision<'publish'>[] = []
    await flushed(2)
    expect(decided.flatMap(({ completes }) => completes)).toEqual(messages.slice(2))
    expect(stage.heldSinceMs?.()).toBe(5_000)
    acknowledge('slow')
    await flushed(4)
    expect(stage.heldSinceMs?.()).toBe(Infinity)
    expect(sent.filter(one => one.startsWith('slow'))).toEqual(['slow job_0', 'slow job_1'])
  })

  it('takes no slot from other partners once it is stalled', async () => {
    const { sent, send } = createSlowTopics()
    const stage = createStage({ findJob, partnerResults: { send }, batch: 1, stalledAfterMs: 1 })
    await stage.decide([messageOf(0), messageOf(2)], signal)
    await eventually(() => expect(sent).toEqual(['slow job_0', 'acme job_2']))
  })

  it('is forgotten in the next generation of the group', async () => {
    const { send, acknowledge } = createSlowTopics()
    const ended = new AbortController()
    const stage = createStage({ findJob, partnerResults: { send } })
    await stage.decide([messageOf(0)], ended.signal)
    ended.abort()
    stage.forget()
    acknowledge('slow')
    expect(await stage.flushHeld?.(partition)).toEqual([])
    expect(await decide(stage, messageOf(0))).toMatchObject({ completes: [messageOf(0)] })
  })
})

it('a published result has the columns that are not blank, the checks made, and its job', () => {
  const names = ['row', 'input', 'status', 'source', 'duplicate_of']
  expect(feedCells(names, ['4', '', 'valid', 'live', '1', ''], 'job_1'))
    .toEqual({ status: 'valid', source: 'live', job: 'job_1' })
  const evidence = String(packChecks({ lists: 'passed', domain: 'failed' }))
  expect(feedCells(names, ['4', 'a', 'invalid', 'cache', '', evidence], 'job_1').checks)
    .toEqual({ syntax: 'passed', lists: 'passed', domain: 'failed' })
  expect(feedCells(names, ['4', '?', 'invalid', 'preflight', '', ''], 'job_1').checks)
    .toEqual({ syntax: 'failed' })
})

describe('a job that is settled or delivered again', () => {
  const second = { rows: [row(3)], contacts: { offsets: [12], references: ['c'] } }
  const createProgress = () => {
    const pieces = new Map<string, number>()
    return {
      pieces,
      read: async (_tenant: string, job: string) => pieces.get(job) ?? 0,
      write: async (_tenant: string, job: string, count: number) => { pieces.set(job, count) },
    }
  }

  it('is not published twice', async () => {
    const sent: number[] = []
    const progress = createProgress()
    const stage = createStage({
      progress,
      results: { feedRows: () => from([piece, second]) },
      partnerResults: {
        send: async (_, results) => { sent.push(...results.map(({ offset }) => offset)) },
      },
    })
    const again = { ...messageOf(2), value: message.value }
    expect(await decide(stage)).toEqual({ completes: [message], emits: [] })
    expect(await decide(stage, again)).toMatchObject({
      completes: [again], ignored: 'its results were published before',
    })
    expect(sent).toEqual([7, 9, 12])
  })

  it('is published from the first piece on that was not acknowledged', async () => {
    const sent: number[] = []
    const progress = createProgress()
    const failing = new AbortController()
    const create = (fails: boolean) => createStage({
      progress,
      results: { feedRows: () => from([piece, second]) },
      partnerResults: {
        send: async (_, results) => {
          if (fails && results.length === 1) {
            failing.abort()
            return await new Promise(() => {})
          }
          sent.push(...results.map(({ offset }) => offset))
        },
      },
    })
    await create(true).decide([message], failing.signal)
    await eventually(() => expect(failing.signal.aborted).toBe(true))
    expect([...progress.pieces.values()]).toEqual([1])
    await decide(create(false))
    expect(sent).toEqual([7, 9, 12])
  })

  it('is published again from a piece on whose contacts were lost', async () => {
    const progress = createProgress()
    const lost = { rows: [row(1)], contacts: undefined }
    const results = { feedRows: () => from([piece, lost, second]) }
    expect(await decide(createStage({ progress, results })))
      .toMatchObject({ dead: 'contacts_lost' })
    expect([...progress.pieces.values()]).toEqual([1])
  })
})
