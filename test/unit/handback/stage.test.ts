import { describe, expect, it } from 'vitest'
import { columnsOf } from '../../../services/records/columns.ts'
import { feedCells, type ContactResult } from '../../../services/records/partner-results.ts'
import { LostResultsError, type FeedRows } from '../../../services/records/results.ts'
import { createHandbackStage } from '../../../services/handback/stage.ts'
import type { Job } from '../../../services/jobs/job.ts'
import type { Incoming } from '../../../services/lib/stage.ts'

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

async function handBack (
  job: Job | undefined, pieces: readonly (FeedRows | Error)[] = [], hasKey = true
) {
  const sent: ContactResult[] = []
  const places: unknown[] = []
  const stage = createHandbackStage({
    partners: { keysOf: async () => hasKey ? [key] : undefined },
    findJob: async () => job,
    findArchived: async () => job === undefined ? undefined : { job, manifest: [] },
    results: { feedRows: () => from(pieces) },
    partnerResults: {
      send: async (of, results) => {
        places.push(of)
        sent.push(...results)
      },
    },
    isGone: async () => false,
    watchEveryMs: 60_000,
    batch: 10,
  })
  const [decision] = await stage.decide([message], new AbortController().signal)
  return { sent, places, decision }
}

describe('a job that came to its end', () => {
  it('gives each of its contacts a result, under the name the partner gave it', async () => {
    const contacts = { offsets: [7, 9], references: ['a', 'b'] }
    const { sent, places, decision } = await handBack(feedJob, [
      { rows: [row(1), row(2)], contacts },
      { rows: [row(3)], contacts: { offsets: [12], references: ['c'] } },
    ])
    const cells = { status: 'valid', job: 'job_1' }
    expect(sent).toEqual([
      { offset: 7, reference: 'a', cells }, { offset: 9, reference: 'b', cells },
      { offset: 12, reference: 'c', cells },
    ])
    expect(places[0]).toEqual({ partner: 'acme', partition: 2, key, service: 'whatsapp' })
    expect(decision).toEqual({ finishes: [message], emits: [] })
  })

  it('of the REST interface is none of ours', async () => {
    const { feed: _feed, ...plain } = feedJob
    for (const job of [plain as Job, undefined]) {
      expect(await handBack(job)).toEqual({
        sent: [], places: [], decision: { finishes: [message], emits: [] },
      })
    }
  })

  it('is a dead letter when a contact of it can not be told', async () => {
    const known = { rows: [row(2)], contacts: { offsets: [1], references: ['b'] } }
    const lost = await handBack(feedJob, [{ rows: [row(1)], contacts: undefined }, known])
    expect([lost.sent.length, lost.decision]).toMatchObject([1, { dead: 'contacts_lost' }])
    const gone = await handBack(feedJob, [new LostResultsError('gone')])
    expect(gone.decision).toMatchObject({ dead: 'results_lost' })
    const nobody = await handBack(feedJob, [known], false)
    expect(nobody.decision).toMatchObject({ dead: 'unknown_partner' })
  })

  it('is a dead letter when its partner is gone for good, with its topic', async () => {
    const answers = [false, true]
    const stage = createHandbackStage({
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
      isGone: async () => answers.shift() ?? true,
      watchEveryMs: 1,
      batch: 10,
    })
    const [decision] = await stage.decide([message], new AbortController().signal)
    expect([decision, answers]).toMatchObject([{ dead: 'partner_topic_deleted' }, []])
  })

  it('is tried again when its results are not there yet', async () => {
    await expect(handBack(feedJob, [new Error('a block is missing')])).rejects.toThrow('missing')
  })
})

it('the cells of a result are those that say something, and its job', () => {
  const names = ['row', 'input', 'status', 'duplicate_of']
  expect(feedCells(names, ['4', '', 'valid', '1'], 'job_1'))
    .toEqual({ status: 'valid', job: 'job_1' })
})
