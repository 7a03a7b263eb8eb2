import { EventEmitter } from 'node:events'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { connectSubmitter } from '../../../services/ingest/connect-submitter.ts'
import type { JobStore } from '../../../services/jobs/store.ts'
import type { Outcome } from '../../../services/jobs/store-types.ts'
import type { Submission } from '../../../services/jobs/send.ts'
import type { Bus } from '../../../services/runtime/kafka/bus.ts'
import { createCodec, localSource } from '../../../services/runtime/kafka/registry.ts'
import { jobOf, NOW_MS } from './doubles.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'

const KEY = Buffer.alloc(32, 3)
const submission: Submission = {
  tenant: 'org_01.live',
  service: 'phone-validation',
  inputs: ['+12127365000'],
  country: '',
  forceFresh: false,
  metadata: {},
  webhookUrl: '',
  idempotencyKey: '',
  fingerprint: 'print',
}

/** A submitter for a pipeline that accepts every job as soon as it reads the outcome. */
async function setUp () {
  const events: string[] = []
  const claims: unknown[] = []
  const job = jobOf()
  const stored = {
    outcome: { kind: 'accepted', job } as Outcome, submitted: Promise.withResolvers<void>(),
  }
  const subscriber = Object.assign(new EventEmitter(), {
    subscribe: async (channel: string) => { events.push(`subscribed to ${channel}`) },
    disconnect: () => { events.push('disconnected') },
  })
  const producer = (name: string) => {
    const send: ReturnType<Bus['producer']>['send'] = async messages => {
      events.push(...messages.map(({ topic }) => `${topic} by ${name}`))
    }
    return { send, close: async () => {} }
  }
  const store = {
    claim: async (_tenant: string, request: { acceptWithinMs: number }) => {
      claims.push(request.acceptWithinMs)
      return { kind: 'new', nowMs: NOW_MS, acceptByMs: NOW_MS + request.acceptWithinMs }
    },
    outcome: async () => {
      stored.submitted.resolve()
      return stored.outcome
    },
    refuse: async () => ({ kind: 'open' }),
  }
  const closers: (() => unknown)[] = []
  const metrics = createMetrics()
  const { submission: submitter, waiter } = await connectSubmitter({
    bus: { producer, watchPartitions: () => () => 4 } as unknown as Bus,
    codec: createCodec(localSource()),
    state: { duplicate: () => subscriber, set: async () => 'OK' } as unknown as Redis,
    clock: { now: () => NOW_MS },
    store: store as unknown as JobStore,
    findArchived: async () => undefined,
    keys: {
      create: async () => ({ key: KEY, wrapped: Buffer.of(1) }), get: async () => KEY,
    },
    settings: {
      CACHE_SECRET_ACTIVE: 'v1', ACCEPT_WITHIN_MS: 700, MAX_WAITS: 1, MAX_WAITS_PER_TENANT: 1,
    },
    context: { onStop: close => { closers.push(close) }, metrics },
  })
  return { submitter, waiter, events, claims, closers, job, stored, subscriber, metrics }
}

describe('the submission to the pipeline', () => {
  it('reports the requests that wait, and how many may', async () => {
    const { metrics } = await setUp()
    const series = (await metrics.text()).split('\n').filter(line => line.startsWith('requests_'))
    expect(series).toEqual(['requests_waiting 0', 'requests_waiting_limit 1'])
  })

  it('uses the producer of the lane', async () => {
    const { submitter, events, claims, job } = await setUp()
    expect(events).toEqual(['subscribed to outcomes'])
    expect(await submitter.submit(submission))
      .toEqual({ kind: 'accepted', job, replayed: false })
    await submitter.submit({ ...submission, inputs: Array<string>(2_001).fill('1') })
    expect(events.filter(event => event.includes(' by ')).toSorted()).toEqual([
      'job.keys by bulk',
      'job.keys by small',
      'rows.submitted.bulk by bulk',
      'rows.submitted.bulk by bulk',
      'rows.submitted.small by small',
    ])
    expect(claims).toEqual([700, 700])
  })

  it('ends its waiters and then its connection at the stop', async () => {
    const { submitter, events, closers, stored } = await setUp()
    stored.outcome = { kind: 'open' }
    const submitting = submitter.submit(submission)
    const failing = expect(submitting).rejects.toThrow('the service is stopping')
    await stored.submitted.promise
    for (const close of closers.toReversed()) await close()
    await failing
    expect(events.filter(event => !event.includes(' by ')))
      .toEqual(['subscribed to outcomes', 'disconnected'])
  })

  it('survives an error of the subscriber', async () => {
    const { submitter, subscriber } = await setUp()
    expect(subscriber.emit('error', new Error('redis is away'))).toBe(true)
    expect((await submitter.submit(submission)).kind).toBe('accepted')
  })
})
