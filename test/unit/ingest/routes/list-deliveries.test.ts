import { describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Attempt } from '../../../../services/webhooks/delivery-history.ts'
import { deliveryAttempt } from '../../../support/webhooks/deliveries.ts'
import { application, closedJob, JOB_ID, NOW_MS } from '../doubles.ts'

const EVENT = 'evt_0123456789abcdef0123456789abcdef'
const attemptOf = (more: Partial<Attempt>) =>
  deliveryAttempt({ event: EVENT, atMs: NOW_MS, ...more })

const webhookUrl = 'https://hooks.example.com/in'

async function list (more: Partial<IngestDeps> = {}, job = JOB_ID) {
  const { get } = application({
    readJob: async (_tenant, id) => id === JOB_ID ? closedJob() : undefined,
    openHeader: async () => ({ metadata: {}, webhookUrl }),
    ...more,
  })
  const answer = await get(`/jobs/${job}/deliveries`)
  return { status: answer.statusCode, body: answer.json() }
}

const code = async (...parameters: Parameters<typeof list>) => {
  const { status, body } = await list(...parameters)
  return [status, body.error?.code]
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
    const openHeader = async () => ({ metadata: {}, webhookUrl: '' })
    expect(await list({ openHeader })).toEqual({ status: 200, body: { data: [] } })
    expect(await code({}, `${JOB_ID.slice(0, -1)}4`)).toEqual([404, 'job_not_found'])
  })

  it('outlives the address of a job that was erased', async () => {
    const { status, body } = await list({
      openHeader: async () => ({ metadata: {}, webhookUrl: '' }),
      listAttempts: async () => [attemptOf({ outcome: 'discarded', reason: 'erased' })],
    })
    expect([status, body.data.length]).toEqual([200, 1])
    expect(body.data[0]).toMatchObject({ outcome: 'discarded', reason: 'erased' })
  })
})
