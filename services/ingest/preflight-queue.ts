import { sleep } from '../lib/retry.ts'
import type { Submission, Submitter } from '../jobs/submit.ts'
import { FaultError } from './errors.ts'
import type { Limiter } from './limits/limiter.ts'
import { standingHeaders } from './limits/standing.ts'

export type PreflightQueueOptions = {
  /** Preflights of a tenant that are under way at once. */
  readonly maxPreflights: number
  /** The longest that a request waits for its turn. */
  readonly waitMs: number
  readonly limiter: Pick<Limiter, 'giveBack'>
}

/** Preflights of one tenant: how many are under way, and whose turn is next. */
type Places = { taken: number, readonly waiting: Set<() => void> }

/** A place is free as soon as one of the tenant's preflights is done, which takes seconds. */
const RETRY_AFTER_SECONDS = 5

/**
 * The same submitter, of which each tenant has so many preflights under way in this process; its
 * further requests wait in their order. They wait with their bodies in hand, so a body that comes
 * slowly holds nobody up, and whoever sends a hundred jobs at once gets a hundred answers.
 * A request that has waited too long throws the fault `too_many_preflights`: nothing was claimed,
 * and it counts towards no limit.
 */
export function queuePreflights (
  { submit, quote }: Submitter, options: PreflightQueueOptions
): Submitter {
  const enter = createPlaces(options)
  const inTurn = async <T>(submission: Submission, work: () => Promise<T>): Promise<T> => {
    const leave = await enter(submission.tenant)
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

function createPlaces ({ maxPreflights, waitMs, limiter }: PreflightQueueOptions) {
  const tenants = new Map<string, Places>()
  const leave = (tenant: string, places: Places) => () => {
    const [next] = places.waiting
    if (next === undefined) places.taken -= 1
    else next()
    if (places.taken === 0) tenants.delete(tenant)
  }
  return async (tenant: string): Promise<() => void> => {
    const places = tenants.get(tenant) ?? { taken: 0, waiting: new Set() }
    tenants.set(tenant, places)
    if (places.taken < maxPreflights) places.taken += 1
    else if (!await isNext(places, waitMs)) throw await tooMany(tenant, limiter)
    return leave(tenant, places)
  }
}

/** True once a preflight that is done hands its place over; false when that takes too long. */
async function isNext ({ waiting }: Places, waitMs: number): Promise<boolean> {
  const turn = Promise.withResolvers<boolean>()
  const over = new AbortController()
  const take = () => {
    waiting.delete(take)
    turn.resolve(true)
  }
  waiting.add(take)
  const late = sleep(waitMs, over.signal).then(() => turn.resolve(!waiting.delete(take)), () => {})
  const isMine = await turn.promise
  over.abort()
  await late
  return isMine
}

async function tooMany (tenant: string, limiter: Pick<Limiter, 'giveBack'>): Promise<FaultError> {
  const levels = await limiter.giveBack({ tenant, kind: 'post' })
  const { 'retry-after': _none, ...headers } = standingHeaders(levels)
  return new FaultError({
    code: 'too_many_preflights', retryAfterSeconds: RETRY_AFTER_SECONDS, headers,
  })
}
