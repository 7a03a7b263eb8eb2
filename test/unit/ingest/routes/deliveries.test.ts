import { describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Attempt } from '../../../../services/webhooks/delivery-history.ts'
import { eventIdOf } from '../../../../services/webhooks/event.ts'
import { deliveryAttempt } from '../../../support/webhooks/deliveries.ts'
import { application, closedJob, JOB_ID, jobOf, NOW_MS } from '../doubles.ts'

const EVENT = eventIdOf(JOB_ID, 'job.completed')
const webhookUrl = 'https://hooks.example.com/in'
const withoutAddress = async () => ({ metadata: {}, webhookUrl: '' })
const attemptOf = (more: Partial<Attempt>) =>
  deliveryAttempt({ event: EVENT, atMs: NOW_MS, ...more })

/** An interface with a job that has ended, whose webhook has an address. */
const withJob = (more: Partial<IngestDeps>) => application({
  readJob: async (_tenant, id) => id === JOB_ID ? closedJob() : undefined,
  openHeader: async () => ({ metadata: {}, webhookUrl }),
  ...more,
})

async function list (more: Partial<IngestDeps> = {}, job = JOB_ID) {
  const answer = await withJob(more).get(`/jobs/${job}/deliveries`)
  return { status: answer.statusCode, body: answer.json() }
}

describe('the route of deliveries', () => {
  it('shows every attempt, newest first, and nothing else of it', async () => {
    const calls: string[][] = []
    const { status, body } = await list({
      listAttempts: async (...names) => {
        calls.push(names)
        return [
          attemptOf({}),
          attemptOf({ attempt: 2, atMs: NOW_MS + 20, reason: 'status', httpStatus: 500 }),
          attemptOf({
            attempt: 3, atMs: NOW_MS + 20, outcome: 'delivered', reason: '', httpStatus: 204,
          }),
        ]
      },
    })
    expect(calls).toEqual([['org_01.live', JOB_ID]])
    const first = {
      deliveryId: EVENT,
      type: 'job.completed',
      jobId: JOB_ID,
      endpointId: null,
      attempt: 1,
      attemptedAt: '2026-08-11T10:00:00.000Z',
      outcome: 'failed',
      statusCode: null,
      reason: 'timeout',
      durationMs: 15_000,
    }
    const second = { attemptedAt: '2026-08-11T10:00:00.020Z', statusCode: 500, reason: 'status' }
    const third = { ...second, outcome: 'delivered', statusCode: 204, reason: null }
    expect([status, body]).toEqual([200, {
      data: [{ ...first, attempt: 3, ...third }, { ...first, attempt: 2, ...second }, first],
    }])
  })

  it('is empty before the first attempt, and forever without an address', async () => {
    expect(await list()).toEqual({ status: 200, body: { data: [] } })
    expect(await list({ openHeader: withoutAddress })).toEqual({ status: 200, body: { data: [] } })
    const unknown = await list({}, `${JOB_ID.slice(0, -1)}4`)
    expect([unknown.status, unknown.body.error.code]).toEqual([404, 'job_not_found'])
  })

  it('outlives the address of a job that was erased', async () => {
    const { status, body } = await list({
      openHeader: withoutAddress,
      listAttempts: async () => [attemptOf({ outcome: 'discarded', reason: 'erased' })],
    })
    expect([status, body.data.length]).toEqual([200, 1])
    expect(body.data[0]).toMatchObject({ outcome: 'discarded', reason: 'erased' })
  })
})

/** Requests a resend; `sent` are the arguments that were passed on. */
async function resend (more: Partial<IngestDeps> = {}, { job = JOB_ID, event = EVENT } = {}) {
  const sent: unknown[] = []
  const { send } = withJob({
    listAttempts: async () => [attemptOf({}), attemptOf({ attempt: 2 })],
    resend: async (...parameters) => {
      sent.push(parameters)
      return 'queued'
    },
    ...more,
  })
  const answer = await send('POST', `/jobs/${job}/deliveries/${event}/resend`)
  const body = answer.json()
  return { answer: [answer.statusCode, body.error?.code ?? body], sent }
}

const delivery = { tenant: 'org_01.live', job: JOB_ID, type: 'job.completed', to: { webhookUrl } }
const refused = (code: string) => ({ answer: [404, code], sent: [] })

describe('the route of resending', () => {
  it('reports an attempt under way', async () => {
    const { answer } = await resend({ resend: async () => 'trying' })
    expect(answer).toEqual([202, { deliveryId: EVENT, status: 'trying' }])
  })

  it('brings forward what waits for its first attempt', async () => {
    const { sent } = await resend({
      listAttempts: async () => [],
      findDelivery: async event => event === EVENT
        ? { state: 'waiting', attempts: 0, dueAtMs: 1 }
        : undefined,
    })
    expect(sent).toEqual([[delivery, 0]])
  })

  it('makes no delivery that was not there', async () => {
    expect(await resend({ listAttempts: async () => [] })).toEqual(refused('not_found'))
    const other = eventIdOf(JOB_ID, 'job.failed')
    expect(await resend({}, { event: other })).toEqual(refused('not_found'))
    expect(await resend({ readJob: async () => jobOf() })).toEqual(refused('not_found'))
    expect(await resend({ openHeader: withoutAddress })).toEqual(refused('not_found'))
    expect(await resend({}, { job: `${JOB_ID.slice(0, -1)}4` })).toEqual(refused('job_not_found'))
  })
})
