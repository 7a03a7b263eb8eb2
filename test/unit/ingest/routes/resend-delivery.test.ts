import { describe, expect, it } from 'vitest'
import type { IngestDeps } from '../../../../services/ingest/deps.ts'
import type { Attempt } from '../../../../services/webhooks/delivery-history.ts'
import { eventIdOf } from '../../../../services/webhooks/event.ts'
import { application, closedJob, JOB_ID, jobOf } from '../doubles.ts'

const EVENT = eventIdOf(JOB_ID, 'job.completed')
const webhookUrl = 'https://hooks.example.com/in'
const attempts = [{ event: EVENT, attempt: 1 }, { event: EVENT, attempt: 2 }] as Attempt[]

/** Requests a resend; `sent` are the arguments that were passed on. */
async function resend (more: Partial<IngestDeps> = {}, { job = JOB_ID, event = EVENT } = {}) {
  const sent: unknown[] = []
  const { send } = application({
    readJob: async (_tenant, id) => id === JOB_ID ? closedJob() : undefined,
    openHeader: async () => ({ metadata: {}, webhookUrl }),
    listAttempts: async () => attempts,
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
    const openHeader = async () => ({ metadata: {}, webhookUrl: '' })
    expect(await resend({ openHeader })).toEqual(refused('not_found'))
    expect(await resend({}, { job: `${JOB_ID.slice(0, -1)}4` })).toEqual(refused('job_not_found'))
  })
})
