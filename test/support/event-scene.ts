import { randomBytes } from 'node:crypto'
import type { Redis } from 'ioredis'
import { EVENT_TYPES, type EventBody } from '../../schemas/api/event.ts'
import type { EventSubscription } from '../../services/accounts/organizations.ts'
import { type AttemptDeps, makeAttempt } from '../../services/webhooks/attempt.ts'
import type { Answer } from '../../services/webhooks/sender.ts'
import { createDeliverStage } from '../../services/deliver/stage.ts'
import type { Emission, Incoming } from '../../services/runtime/engine/stage.ts'
import { createDeliveries, type Deliveries } from '../../services/webhooks/deliveries.ts'
import { partsOfDelivery } from '../../services/jobs/events.ts'
import type { Job } from '../../services/jobs/job.ts'
import { settledOf } from '../../services/jobs/results/finish-job.ts'
import { JobProgress } from '../../services/settle/progress.ts'
import { DELIVERED_TENANT, endedJob } from './deliveries.ts'
import { endpointIdAt, endpointOf } from './endpoints.ts'

/** Rows of the job of a scene. */
export const ROWS = 20

/** The endpoint of every event, and that of the end alone. */
export const [ALL, END] = [endpointIdAt(1, 'all'), endpointIdAt(1, 'end')]

const SUBSCRIPTIONS: readonly EventSubscription[] = [
  { endpoint: ALL, events: EVENT_TYPES },
  { endpoint: END, events: ['job.completed', 'job.failed', 'job.cancelled'] },
]
const key = randomBytes(32)

type Message = Incoming<'jobs.settled' | 'jobs.events'>

const runningJob = (number: number): Job => endedJob({
  id: `job_${number}`,
  status: 'verifying',
  ended: false,
  closed: false,
  preflight: { ...endedJob().preflight, totalRows: ROWS },
  counts: { ...endedJob().counts, finishedRows: 0 },
  events: ['job.accepted', 'job.progress'],
})

/** A request to an endpoint; `isLate` after the end of the job was queued. */
type Received = { readonly to: string, readonly body: EventBody, readonly isLate: boolean }

/**
 * A job with two endpoints, one of them for its end alone, from the count of its rows to the
 * requests. Any part may be restarted, and any message read again.
 */
export function createEventScene (redis: Redis, number: number) {
  const deliveries = createDeliveries(redis)
  const settling = createSettling(number)
  const sent: Received[] = []
  let endQueued = false
  const stage = createDeliverStage({
    deliveries,
    keys: { get: async () => key },
    subscriptions: async tenant => tenant === DELIVERED_TENANT ? SUBSCRIPTIONS : [],
    wake: () => {},
    batch: 10,
  })
  const attempt = createAttempts({
    deliveries,
    findJob: async () => settling.job(),
    onSent: (to, body) => { sent.push({ to, body, isLate: endQueued }) },
  })
  return {
    sent,
    advance: settling.advance,
    restartSettle: settling.restart,
    attempt,
    /** Reads the last messages, of which the first ones were read before. */
    deliver: async (count: number) => {
      const some = settling.messages.slice(-count)
      await stage.decide(some, new AbortController().signal)
      endQueued ||= some.some(({ topic }) => topic === 'jobs.settled')
    },
    /** Endpoint and type of every delivery that arrived. */
    delivered: async () => [...(await deliveries.unshipped(1_000)).values()]
      .filter(({ outcome }) => outcome === 'delivered')
      .map(({ event, type }) => [partsOfDelivery(event).endpoint, type] as const),
  }
}

/** What settle counts and emits. */
function createSettling (number: number) {
  const messages: Message[] = []
  let progress = new JobProgress()
  let job = runningJob(number)
  const emit = () => {
    const advanced = progress.advance([
      { kind: 'counted', ended: job.ended, job, entry: undefined },
    ])
    const settled = { topic: 'jobs.settled', value: settledOf(job) } as const
    const emits: readonly Pick<Emission, 'topic' | 'value'>[] =
      [...advanced.emits, ...job.ended ? [settled] : []]
    messages.push(...emits.map(({ topic, value }) =>
      ({ topic, value, raw: { headers: {} } }) as never))
    advanced.remember()
  }
  return {
    messages,
    job: () => job,
    advance: (rows: number) => {
      if (job.ended) return
      const finishedRows = Math.min(ROWS, job.counts.finishedRows + rows)
      const end = { status: 'completed', ended: true, closed: true } as const
      const counts = { ...job.counts, finishedRows }
      job = { ...job, counts, ...finishedRows === ROWS && end }
      emit()
    },
    /** A restarted settle reads its last block again. */
    restart: () => {
      progress = new JobProgress()
      emit()
    },
  }
}

type Attempts = Pick<AttemptDeps, 'findJob'> & {
  readonly deliveries: Deliveries
  readonly onSent: (to: string, body: EventBody) => void
}

/** Makes the attempts that are due; resolves to their number. */
function createAttempts ({ deliveries, findJob, onSent }: Attempts) {
  return async (isAnswered: boolean): Promise<number> => {
    const answer: Answer = isAnswered
      ? { kind: 'answered', status: 200, retryAfterMs: undefined }
      : { kind: 'failed', reason: 'timeout' }
    const deps: AttemptDeps = {
      deliveries,
      findJob,
      keys: { get: async () => key },
      secrets: { active: async () => [], show: async () => '' },
      signingKeys: { active: async () => [], show: async () => '' },
      endpoints: { current: async (_tenant, id) => endpointOf({ id, url: `https://${id}/` }) },
      takeToken: () => 0,
      send: async (url, { body }) => {
        onSent(new URL(url).hostname, JSON.parse(body) as EventBody)
        return { answer, durationMs: 1 }
      },
      metrics: { count: () => {}, observe: () => {} },
      // A retry is due at once.
      clock: { now: () => Date.now() - 1_000 },
      waitsMs: Array(50).fill(0),
      slowAfterMs: 1_000,
    }
    const limits = { priority: 'quick', limit: 10, leaseMs: 60_000, tenantSlots: 100 } as const
    const claims = await deliveries.claim(limits)
    await Promise.all(claims.map(claim => makeAttempt(deps, claim)))
    return claims.length
  }
}
