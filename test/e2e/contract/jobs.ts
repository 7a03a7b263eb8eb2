import { randomUUID } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { JobStatusResource } from '../../../services/client/client.ts'
import { jobRedisKeys } from '../../../services/jobs/job-record.ts'
import { taggedTenant } from '../../../services/money/redis-keys.ts'
import { verdictsOf } from '../../support/stacks/environment.ts'
import {
  ended, MOMENT, newCustomer, newNumbers, openPost, service, shared, whileHalted,
} from './support.ts'

const STATES = ['queued', 'preparing', 'verifying', 'completed']
const MIXED = [
  '+12127360008', '+12127360001', '+12127360002', '+12127360003', '+12127360008', 'call me',
  '+12127360003', '',
]

describe('the states of a job', () => {
  it('begin with queued in the 202 and only move forward; ' +
    'resultUrl is there from the beginning', async () => {
    const { test } = await newCustomer()
    const seen: string[] = []
    const { id, status } = await test.client.createJob({ service, inputs: ['+12127360004'] })
    const paths = new Set<string>()
    const note = (job: JobStatusResource) => {
      paths.add(job.resultUrl)
      if (job.status !== seen.at(-1)) seen.push(job.status)
    }
    await test.client.waitForEnd(id, { pollEveryMs: 20, onProgress: note })
    expect([...paths]).toEqual([`/api/v1/jobs/${id}/results`])
    const answer = await test.ask(`/${[...paths][0]}`)
    expect([answer.status, answer.text]).toEqual([200, await test.client.results(id)])
    expect([status, seen.at(-2), seen.at(-1)]).toEqual(['queued', 'verifying', 'completed'])
    expect(seen).toEqual(STATES.filter(state => seen.includes(state)))
  })

  it('without fresh rows never show a live check', async () => {
    const { test } = await newCustomer()
    const seen = new Set<string>()
    const { id } = await test.client.createJob({ service, inputs: Array(2_000).fill('x') })
    await test.client.waitForEnd(id, {
      pollEveryMs: 5, onProgress: job => { seen.add(job.status) },
    })
    expect([...seen].filter(state => !['queued', 'preparing', 'completed'].includes(state)))
      .toEqual([])
  })

  it('are never failed by the outcome of a row', async () => {
    const { test } = await newCustomer()
    const inputs = ['+12127360003', '+12127360005', '+12127360006', 'x']
    const { job, rows } = await ended(test, { service, inputs })
    expect(job).toMatchObject({
      status: 'completed',
      failedRecords: 4,
      successRecords: 0,
      freshRecords: 0,
      unknownRecords: 3,
      invalidRecords: 1,
    })
    expect(rows.map(row => row.status)).toEqual(['unknown', 'unknown', 'unknown', 'invalid'])
  })
})

describe('the status resource', () => {
  it('has the fields of the interface, in their types', async () => {
    const { live } = await newCustomer()
    const count = expect.any(Number)
    const metadata = { team: 'sales', é: '' }
    const { job } = await ended(live, { service, inputs: MIXED, metadata })
    expect(job).toEqual({
      id: expect.stringMatching(/^job_/),
      status: 'completed',
      totalRows: count,
      cacheHits: count,
      freshRecords: count,
      successRecords: count,
      failedRecords: count,
      createdAt: expect.stringMatching(MOMENT),
      updatedAt: expect.stringMatching(MOMENT),
      resultUrl: `/api/v1/jobs/${job.id}/results`,
      service,
      invalidRows: count,
      duplicateRows: count,
      invalidRecords: count,
      duplicateRecords: count,
      unknownRecords: count,
      cancelledRecords: count,
      pendingRecords: 0,
      verdicts: { valid: count, invalid: count, risky: count, unknown: count },
      reasons: expect.any(Object),
      progressPercent: 100,
      maxQuoteMicros: count,
      chargedMicros: count,
      releasedMicros: count,
      metadata,
      completedAt: expect.stringMatching(MOMENT),
      hasOriginalColumns: false,
      erasedAt: null,
      erasureCompletedAt: null,
      deadline: null,
      waiting: null,
    })
    expect(job.completedAt! >= job.createdAt).toBe(true)
  })

  it('counts that add up to the rows, a live verdict invalid being a success; ' +
    'the preflight of the 202 stays as it was', async () => {
    const { live } = await newCustomer()
    await ended(live, { service, inputs: ['+12127360008'] })
    const { created, job } = await ended(live, { service, inputs: MIXED })
    expect(job).toMatchObject({
      totalRows: 8,
      cacheHits: 1,
      freshRecords: 2,
      duplicateRows: 2,
      invalidRows: 2,
      duplicateRecords: 2,
      invalidRecords: 2,
      unknownRecords: 1,
      cancelledRecords: 0,
      pendingRecords: 0,
      successRecords: 4,
      failedRecords: 4,
    })
    expect(job.chargedMicros + job.releasedMicros).toBe(job.maxQuoteMicros)
    expect(created.preflight).toMatchObject({
      totalRows: 8, cacheHits: 1, freshChecks: 3, duplicateRows: 2, invalidRows: 2,
    })
    expect(created.preflight.maxQuoteMicros).toBe(job.maxQuoteMicros)
  })
})

it('the verdicts of a job ' +
  'are counted by status and reason as in its file, in every state', async () => {
  const { live } = await newCustomer()
  await ended(live, { service, inputs: ['+12127360008'] })
  const { job, rows } = await ended(live, { service, inputs: MIXED })
  expect(job).toMatchObject(verdictsOf(rows))
  expect(job.verdicts!.unknown).toBe(2)
  expect((await live.client.jobsPage()).data[0]).toEqual(job)
  await whileHalted('verify-1', async () => {
    const inputs = ['+12127360008', ...newNumbers(1), '+12127360008', 'call me']
    const { id } = await live.client.createJob({ service, inputs })
    await expect.poll(async () => (await live.client.job(id)).pendingRecords).toBe(1)
    expect(await live.client.job(id)).toMatchObject({
      verdicts: { valid: 2, invalid: 1, risky: 0, unknown: 0 },
      reasons: { assigned_range: 2, not_a_phone_number: 1 },
    })
    await live.client.cancel(id)
  })
})

describe('a job with a deadline', () => {
  const after = (createdAt: string, seconds: number) =>
    new Date(Date.parse(createdAt) + seconds * 1_000).toISOString()

  it('has the requested deadline, counted from its creation, with a file too', async () => {
    const { live } = await newCustomer()
    const { job } = await ended(live, { service, inputs: newNumbers(1), deadline: 172_800 })
    expect(job).toMatchObject({ status: 'completed', deadline: after(job.createdAt, 172_800) })
    const file = Buffer.from(`phone\n${newNumbers(1).join()}\n`)
    const { id } = await live.client.createJobFromFile(file, { service, deadline: 60 })
    const ofFile = await live.client.waitForEnd(id)
    expect(ofFile.deadline).toBe(after(ofFile.createdAt, 60))
  })

  it('shows how many rows wait, why and until when, and null once it is cancelled', async () => {
    const { live } = await newCustomer()
    await whileHalted('verify-1', async () => {
      const { id } = await live.client.createJob({ service, inputs: newNumbers(3), deadline: 60 })
      const { createdAt, waiting } = await live.client.job(id)
      expect(waiting).toBeNull()
      const lastDueMs = Date.parse(after(createdAt, 30))
      const batch = JSON.stringify({ reasons: { greylisted: 2 }, lastDueMs })
      await shared().redis.hset(jobRedisKeys(live.tenant, id).waiting, '0:0', batch)
      const expected = {
        rows: 2, reasons: { greylisted: 2 }, estimatedEndAt: after(createdAt, 30),
      }
      expect((await live.client.job(id)).waiting).toEqual(expected)
      expect((await live.client.jobsPage()).data).toMatchObject([{ id, waiting: expected }])
      expect((await live.client.cancel(id)).waiting).toBeNull()
      expect((await live.client.job(id)).waiting).toBeNull()
    })
  })
})

describe('a job', () => {
  it('completes when the client disconnects during the POST', async () => {
    const { live } = await newCustomer()
    const body = JSON.stringify({ service, inputs: newNumbers(2), metadata: { left: 'yes' } })
    await whileHalted('normalize-1', async () => {
      const sent = openPost(live, '/jobs', Buffer.byteLength(body))
      sent.end(body)
      const keys = `job:${taggedTenant(live.tenant)}:*`
      await expect.poll(() => shared().redis.keys(keys)).toHaveLength(1)
      sent.destroy()
    })
    await expect.poll(async () => (await live.client.jobsPage({ status: 'completed' })).data)
      .toMatchObject([{ metadata: { left: 'yes' }, successRecords: 2, chargedMicros: 4_000 }])
    expect(await live.client.balance()).toMatchObject({ balanceMicros: 996_000, reservedMicros: 0 })
  })

  it('with fresh rows takes one of ten slots of its organization; the eleventh is 429; ' +
    'of cached or invalid rows alone takes no slot; ' +
    'of another organization has slots of its own; test jobs take the same', async () => {
    const { live, test } = await newCustomer()
    const other = await newCustomer()
    const known = newNumbers(1)
    await ended(live, { service, inputs: known })
    const post = (inputs: readonly string[]) => live.ask('/jobs', { body: { service, inputs } })
    const ids = await whileHalted('verify-1', async () => {
      const active = await Promise.all(newNumbers(10).map(number => post([number])))
      expect(active.map(({ status }) => status)).toEqual(Array(10).fill(202))
      const before = await live.client.balance()
      const eleventh = await post(newNumbers(1))
      expect([eleventh.status, eleventh.code]).toEqual([429, 'concurrent_jobs_limit'])
      expect(Number(eleventh.headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
      expect(await live.client.balance()).toEqual(before)
      for (const inputs of [known, ['x']]) {
        const { job } = await ended(live, { service, inputs })
        expect([job.status, job.chargedMicros]).toEqual(['completed', 0])
      }
      const elsewhere = await Promise.all([other.live, test].map(account =>
        account.ask('/jobs', { body: { service, inputs: newNumbers(1) } })))
      expect(elsewhere.map(({ status }) => status)).toEqual([202, 429])
      return active.map(({ json }) => json.id as string)
    })
    await Promise.all(ids.map(id => live.client.waitForEnd(id)))
    expect((await post(newNumbers(1))).status).toBe(202)
  })
})

it('the job of another organization ' +
  'is indistinguishable from one that does not exist', async () => {
  const [owner, other] = [await newCustomer(), await newCustomer()]
  const { id } = await owner.live.client.createJob({ service, inputs: ['x'] })
  const answersFor = async (job: string) => {
    const { status, json: { error } } = await other.live.ask(`/jobs/${job}`)
    return [status, error.code, error.message]
  }
  const theirs = await answersFor(id)
  expect(theirs).toEqual(await answersFor(`${id.slice(0, -4)}0000`))
  expect(theirs.slice(0, 2)).toEqual([404, 'job_not_found'])
})

it('the list of jobs is read to its end by the client, page by page', async () => {
  const { test } = await newCustomer()
  const ids: string[] = []
  for (const name of ['a', 'b', 'c', 'd', 'e']) {
    const request = { service, inputs: ['x'], metadata: { name } }
    ids.push((await test.client.createJob(request, randomUUID())).id)
  }
  const listed: string[] = []
  for await (const job of test.client.jobs({ limit: 2 })) listed.push(job.id)
  expect(listed).toEqual(ids.toReversed())
})
