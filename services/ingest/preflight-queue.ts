import { partsOf } from '../accounts/tenant.ts'
import { sleep } from '../platform/retry.ts'
import { laneOf } from '../platform/topics.ts'
import type { Submission, Submitter } from '../jobs/submit.ts'
import { ApiException } from './errors.ts'
import type { Limiter } from './limits/limiter.ts'

export type PreflightQueueOptions = {
  /** Preflights of a tenant that are under way at once, in each lane. */
  readonly maxPreflights: number
  /** Rows they have together at most, but for a single larger one. */
  readonly maxRows: number
  /** The longest that a request waits for its turn. */
  readonly waitMs: number
  readonly limiter: Pick<Limiter, 'giveBack'>
}

type Waiting = { readonly rows: number, readonly begin: () => void }
/** Preflights of one tenant in one lane: what is under way, and whose turn is next. */
type Places = { taken: number, rows: number, readonly waiting: Set<Waiting> }

/** A place is free as soon as one of the tenant's preflights is done, which takes seconds. */
const RETRY_AFTER_SECONDS = 5

/**
 * The same submitter, of which each tenant has so many preflights and rows under way in this
 * process; its further requests wait in their order. So the stages before `accept` have little of
 * one tenant in front of what another one sends. Requests wait with their bodies in hand, so a body
 * that comes slowly holds nobody up, and a client that sends a hundred jobs gets a hundred answers.
 * A request that has waited too long throws the fault `too_many_preflights`: nothing was claimed,
 * and it counts towards no limit.
 */
export function queuePreflights (
  { submit, quote }: Submitter, options: PreflightQueueOptions
): Submitter {
  const enter = createPlaces(options)
  const inTurn = async <T>(submission: Submission, work: () => Promise<T>): Promise<T> => {
    const leave = await enter(submission)
    try {
      return await work()
    } finally {
      leave()
    }
  }
  return {
    submit: submission => inTurn(submission, () => submit(submission)),
    quote: submission => inTurn(submission, () => quote(submission)),
  }
}

function createPlaces ({ maxPreflights, maxRows, waitMs, limiter }: PreflightQueueOptions) {
  const lanes = new Map<string, Places>()
  const fits = ({ taken, rows }: Places, more: number) =>
    taken === 0 || (taken < maxPreflights && rows + more <= maxRows)
  const take = (places: Places, rows: number) => {
    places.taken += 1
    places.rows += rows
  }
  const leave = (name: string, places: Places, rows: number) => {
    places.taken -= 1
    places.rows -= rows
    for (const next of places.waiting) {
      if (!fits(places, next.rows)) break
      places.waiting.delete(next)
      take(places, next.rows)
      next.begin()
    }
    if (places.taken === 0) lanes.delete(name)
  }
  return async ({ tenant, inputs }: Submission): Promise<() => void> => {
    const rows = inputs.length
    const name = `${laneOf(rows)} ${tenant}`
    const places = lanes.get(name) ?? { taken: 0, rows: 0, waiting: new Set() }
    lanes.set(name, places)
    if (places.waiting.size === 0 && fits(places, rows)) take(places, rows)
    else if (!await isNext(places, rows, waitMs)) throw await tooMany(tenant, limiter)
    return () => leave(name, places, rows)
  }
}

/** True once the place is taken by those who left theirs; false when that takes too long. */
async function isNext ({ waiting }: Places, rows: number, waitMs: number): Promise<boolean> {
  const turn = Promise.withResolvers<boolean>()
  const over = new AbortController()
  const own: Waiting = { rows, begin: () => turn.resolve(true) }
  waiting.add(own)
  const late = sleep(waitMs, over.signal).then(() => turn.resolve(!waiting.delete(own)), () => {})
  const isMine = await turn.promise
  over.abort()
  await late
  return isMine
}

async function tooMany (tenant: string, limiter: Pick<Limiter, 'giveBack'>): Promise<ApiException> {
  await limiter.giveBack({ org: partsOf(tenant).orgId, kind: 'post' })
  return new ApiException({ code: 'too_many_preflights', retryAfterSeconds: RETRY_AFTER_SECONDS })
}
