import { describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../services/ingest/ports.ts'
import { eventIdOf } from '../../../services/jobs/events.ts'
import { application, closedJob, good, jobOf, JOB_ID } from './doubles.ts'

const EVENT = eventIdOf(JOB_ID, 'job.completed')

/** As ClickHouse's client throws it when a part file was cut off by a full disk. */
const cut = Object.assign(new Error('Cannot read all data.'),
  { code: '33', type: 'CANNOT_READ_ALL_DATA' })
const refused = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
const readOnly = Object.assign(new Error("READONLY You can't write against a read only replica."),
  { name: 'ReplyError' })

const fails = (error: Error) => () => Promise.reject(error)
async function * breaksOff (error: Error, ...pieces: readonly string[]) {
  yield * pieces
  throw error
}

type Case = readonly [part: keyof IngestDeps, line: string, more?: Partial<IngestDeps>]

/** The failing store, the request that reveals it, and what is known of the job before. */
const CASES: readonly Case[] = [
  ['findKey', 'GET /jobs'],
  ['openJobs', 'GET /jobs'],
  ['listArchived', 'GET /jobs'],
  ['openHeader', 'GET /jobs', { openJobs: async () => [jobOf()] }],
  ['readJob', `GET /jobs/${JOB_ID}`],
  ['findArchived', `GET /jobs/${JOB_ID}`, { readJob: async () => undefined }],
  ['openHeader', `GET /jobs/${JOB_ID}`],
  ['cancel', `POST /jobs/${JOB_ID}/cancel`],
  ['findErasures', `GET /jobs/${JOB_ID}`],
  ['findErasures', `GET /jobs/${JOB_ID}/results`],
  ['erase', `DELETE /jobs/${JOB_ID}`],
  ['findArchived', `GET /jobs/${JOB_ID}/results`],
  ['rows', `GET /jobs/${JOB_ID}/results?format=json`],
  ['listAttempts', `GET /jobs/${JOB_ID}/deliveries`],
  ['listAttempts', `POST /jobs/${JOB_ID}/deliveries/${EVENT}/resend`],
  ['findDelivery', `POST /jobs/${JOB_ID}/deliveries/${EVENT}/resend`],
  ['balance', 'GET /balance'],
  ['usage', 'GET /usage'],
  ['transactions', 'GET /transactions'],
  ['quote', 'POST /quotes'],
  ['submit', 'POST /jobs'],
]

async function answered (line: string, more: Partial<IngestDeps>) {
  const [method, path] = line.split(' ') as ['GET' | 'POST' | 'DELETE', string]
  const { app } = application({
    readJob: async () => closedJob(),
    findArchived: async () => ({ job: closedJob(), manifest: [] }),
    openHeader: async () => ({ metadata: {}, webhookUrl: 'https://hooks.example.com/in' }),
    ...more,
  })
  const answer = await app.inject({
    method,
    url: `/api/v1${path}`,
    headers: { authorization: 'Bearer live' },
    ...(line === 'POST /jobs' || line === 'POST /quotes' ? { payload: good } : {}),
  })
  const code = answer.statusCode < 400 ? '' : answer.json().error.code
  return [answer.statusCode, code, Number(answer.headers['retry-after']) >= 1]
}

describe('a store failure is reported as temporary', () => {
  const cases = CASES.map(([part, line, more]) => ({ part, line, more }))
  it.each(cases)('$part of $line', async ({ part, line, more }) => {
    const failing = (error: Error) => part === 'rows' ? () => breaksOff(error) : fails(error)
    for (const error of [cut, refused, readOnly]) {
      expect(await answered(line, { ...more, [part]: failing(error) }))
        .toEqual([503, 'temporarily_unavailable', true])
    }
    const bug = await answered(line, { ...more, [part]: failing(new TypeError('a bug')) })
    expect(bug).toEqual([500, 'internal', false])
  })

  it.each([
    ['before the first line of CSV', 'csv', { csvStream: () => breaksOff(cut) }],
    ['before the first row of CSV', 'csv', { csvStream: () => breaksOff(cut, 'row,input\r\n') }],
    ['before the first row of JSON lines', 'jsonl', {
      rows: () => breaksOff(cut) as AsyncIterable<never>,
    }],
  ])('%s', async (_when, format, more) => {
    expect(await answered(`GET /jobs/${JOB_ID}/results?format=${format}`, more))
      .toEqual([503, 'temporarily_unavailable', true])
  })
})
