import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import type { Settled } from '../../../schemas/types.ts'
import { EVENT_TYPES } from '../../../schemas/api/webhooks.ts'
import type { EventSubscription } from '../../../services/accounts/organizations.ts'
import { createDeliverStage } from '../../../services/deliver/main.ts'
import type { WebhookDelivery } from '../../../services/webhooks/deliveries.ts'
import { type JobHeader, sealHeader } from '../../../services/jobs/message-codec.ts'
import type { Incoming } from '../../../services/runtime/engine/stage.ts'
import { toSettled } from '../../../services/jobs/results/finish-job.ts'
import { DELIVERED_JOB, DELIVERED_TENANT, endedJob } from '../../support/webhooks/deliveries.ts'
import { endpointIdAt } from '../../support/webhooks/endpoints.ts'
import { DEAD } from '../../support/stage-messages.ts'

const key = randomBytes(32)
const owner = { tenant: DELIVERED_TENANT, job: DELIVERED_JOB }
const header: JobHeader = { metadata: { a: '1' }, webhookUrl: 'https://a.example/hook' }

function message (
  sealed: Buffer, more: Partial<Settled> = {}, headers: Record<string, string> = {}
) {
  const value = { ...toSettled(endedJob({ header: sealed })), ...more }
  return { topic: 'jobs.settled', value, raw: { headers } } as unknown as Incoming<'jobs.settled'>
}

type Message = Incoming<'jobs.settled' | 'jobs.events'>

const eventMessage = (type: string, tenth = 0, at: number | null = null): Message =>
  ({ topic: 'jobs.events', value: { ...owner, type, tenth, at }, raw: { headers: {} } }) as never

const [ALL, END] = [endpointIdAt(1, 'all'), endpointIdAt(1, 'end')]

/** An endpoint for every event, and one for the end alone. */
const ENDPOINTS: readonly EventSubscription[] = [
  { endpoint: ALL, events: EVENT_TYPES }, { endpoint: END, events: ['job.completed'] },
]

function run (
  messages: readonly Message[], dataKey: Buffer | undefined = key,
  subscriptions: readonly EventSubscription[] = []
) {
  const put: WebhookDelivery[] = []
  let wakes = 0
  const stage = createDeliverStage({
    deliveries: { put: async delivery => { put.push(delivery); return true } },
    keys: { get: async () => dataKey },
    subscriptions: async tenant => tenant === DELIVERED_TENANT ? subscriptions : [],
    wake: () => { wakes += 1 },
    batch: 10,
  })
  const decided = stage.decide(messages, new AbortController().signal)
  return { decided, put, wakes: () => wakes }
}

describe('deliver', () => {
  it('stores the trace of the job with the delivery', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
    const { decided, put } = run([message(sealHeader(key, owner, header), {}, { traceparent })])
    await decided
    expect(put).toEqual([expect.objectContaining({ traceparent })])
  })

  it('ignores jobs without a webhook address and erased jobs', async () => {
    const labelled = message(sealHeader(key, owner, { ...header, webhookUrl: '' }))
    const { decided, put, wakes } = run([message(Buffer.alloc(0)), labelled])
    expect((await decided)[0]).toMatchObject({ emits: [] })
    expect(put).toEqual([])
    expect(wakes()).toBe(0)
    const stage = createDeliverStage({
      deliveries: { put: async () => { throw new Error('put') } },
      keys: { get: async () => undefined },
      subscriptions: async () => [],
      wake: () => {},
      batch: 1,
    })
    const erased = [message(sealHeader(key, owner, header))]
    expect(await stage.decide(erased, new AbortController().signal))
      .toEqual([{ completes: erased, emits: [] }])
    expect(await stage.resolveDead({}, DEAD)).toEqual([])
  })

  it('rejects a job that has not ended and a header sealed by another key', async () => {
    const sealed = sealHeader(key, owner, header)
    const running = [message(sealed, { status: 'verifying' })]
    await expect(run(running).decided).rejects.toThrow('verifying')
    await expect(run([message(sealed)], randomBytes(32)).decided)
      .rejects.toThrow('decryption failed')
  })

  const { endedAtMs } = endedJob()
  it.each<readonly [what: string, Message]>([
    ['the end of a job', message(Buffer.alloc(0))],
    ...['job.accepted', 'job.progress', 'balance.low', 'job.completed'].map(type =>
      [type, eventMessage(type, 0, endedAtMs)] as const),
  ])('queues %s for no endpoint that was created after it', async (_what, one) => {
    const [then, after] = [endpointIdAt(endedAtMs, 'then'), endpointIdAt(endedAtMs + 1, 'x')]
    const { decided, put } = run([one], key,
      [then, after].map(endpoint => ({ endpoint, events: EVENT_TYPES })))
    await decided
    expect(put.map(({ to }) => to)).toEqual([{ endpoint: then }])
  })

  it('queues events before the end for endpoints alone', async () => {
    const { decided, put, wakes } = run([
      eventMessage('job.accepted'), eventMessage('job.progress', 3), eventMessage('balance.low'),
    ], key, ENDPOINTS)
    await decided
    const to = { endpoint: ALL }
    expect(put).toEqual([
      { ...owner, type: 'job.accepted', to },
      { ...owner, type: 'job.progress', tenth: 3, to },
      { ...owner, type: 'balance.low', to },
    ])
    expect(wakes()).toBe(1)
  })
})
