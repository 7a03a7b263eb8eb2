import { describe, expect, it } from 'vitest'
import { columnsOf } from '../../../services/results/columns.ts'
import { packChecks } from '../../../services/cache/evidence.ts'
import { feedCells, type ContactResult } from '../../../services/results/partner-results.ts'
import type { FeedRows } from '../../../services/results/results.ts'
import { LostResultsError } from '../../../services/results/read-chunks.ts'
import { createPublishStage, type PublishDeps } from '../../../services/publish/stage.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { Incoming } from '../../../services/engine/stage.ts'

const key = Buffer.alloc(32)
const columns = columnsOf('whatsapp')
const row = (number: number) => columns.map(name => {
  if (name === 'row') return String(number)
  return name === 'status' ? 'valid' : ''
})
const message = { value: { tenant: 'org_1.live', job: 'job_1' } } as Incoming<'jobs.settled'>
const feedJob = {
  id: 'job_1', service: 'whatsapp', feed: { partner: 'acme', partition: 2 },
} as Job

async function * from (pieces: readonly (FeedRows | Error)[]): AsyncIterable<FeedRows> {
  for (const piece of pieces) {
    if (piece instanceof Error) throw piece
    yield piece
  }
}

async function publish (
  job: Job | undefined, pieces: readonly (FeedRows | Error)[] = [], hasKey = true
) {
  const sent: ContactResult[] = []
  const targets: unknown[] = []
  const stage = createPublishStage({
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
    isDeleted: async () => false,
    topicCheckMs: 60_000,
    batch: 10,
  })
  const [decision] = await stage.decide([message], new AbortController().signal)
  return { sent, targets, decision }
}

describe('publish', () => {
  it('sends one result per contact, under the reference of the partner', async () => {
    const contacts = { offsets: [7, 9], references: ['a', 'b'] }
    const { sent, targets, decision } = await publish(feedJob, [
      { rows: [row(1), row(2)], contacts },
      { rows: [row(3)], contacts: { offsets: [12], references: ['c'] } },
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
    const stage = createPublishStage({
      partners: { keysOf: async () => [key] },
      findJob: async () => feedJob,
      findArchived: async () => ({ job: feedJob, manifest: [] }) as never,
      results: {
        feedRows: () => from([{ rows: [row(1)], contacts: { offsets: [1], references: ['b'] } }]),
      },
      partnerResults: {
        send: (_of, _results, signal) => new Promise((_resolve, reject) => {
          signal?.addEventListener('abort', () => reject(signal.reason))
        }),
      },
      isDeleted: async () => answers.shift() ?? true,
      topicCheckMs: 1,
      batch: 10,
    })
    const [decision] = await stage.decide([message], new AbortController().signal)
    expect([decision, answers]).toMatchObject([{ dead: 'partner_topic_deleted' }, []])
  })

  it('retries a job whose results are not readable yet', async () => {
    await expect(publish(feedJob, [new Error('a block is missing')])).rejects.toThrow('missing')
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
