import { LRUCache } from 'lru-cache'
import type { Submission, Submitter } from '../jobs/submit.ts'
import type { Metrics } from '../platform/metrics.ts'
import { laneOf } from '../platform/topics.ts'
import { LANES, type Lane } from '../topology.ts'

export type LoadShedding = {
  /**
   * True when a request of this tenant and lane would wait in vain; without a lane, when it would
   * in any.
   */
  readonly refuses: (tenant: string, lane?: Lane) => boolean
  /** The same submitter, whose preflights are watched from their claim to their outcome. */
  readonly watch: (submitter: Submitter) => Submitter
}

export type AdmissionOptions = {
  /** How long a preflight may wait until requests like it are refused. */
  readonly behindAfterMs: number
  readonly metrics?: Pick<Metrics, 'watch'>
  /** A clock that never goes back, in ms. */
  readonly now?: () => number
}

/** `decided` by the stages before `accept`, which therefore move; or nobody can say. */
type End = (decided: boolean) => void

/**
 * Tells when the stages before `accept` are behind, by the preflights this process has under way. A
 * lane is behind when none of its preflights was decided for so long while one waited: its stages
 * are dead or paused. A tenant is behind in a lane when its own oldest preflight is as old: it asks
 * for more than its share, and others need not wait for that. Later than `acceptBy` nobody waits
 * for a chunk, and stages skip it. No stage has to report anything, so a consumer group that is
 * dead is noticed like one that is slow, and an idle or new pipeline, for which nobody waits, is
 * never behind. Every instance judges by what its own clients wait for: the stages are the same for
 * all, and a report of others could only be older.
 *
 * What is behind stays so until a preflight is decided and none is left that waits for half as
 * long; until then one request at a time is let in, when nothing else is under way, to find out.
 */
export function createLoadShedding (
  { behindAfterMs, metrics, now = () => performance.now() }: AdmissionOptions
): LoadShedding {
  const lanes = { small: createLane(behindAfterMs, now), bulk: createLane(behindAfterMs, now) }
  for (const lane of LANES) {
    metrics?.watch('preflight_oldest_age_seconds', { lane }, () => lanes[lane].oldestMs() / 1_000)
    metrics?.watch('preflight_overloaded', { lane }, () => Number(lanes[lane].isBehind()))
  }
  const watched = async <T>(
    { tenant, inputs }: Submission, work: () => Promise<T>, isDecided: (outcome: T) => boolean
  ): Promise<T> => {
    const end = lanes[laneOf(inputs.length)].begin(tenant)
    let decided = false
    try {
      const outcome = await work()
      decided = isDecided(outcome)
      return outcome
    } finally {
      end(decided)
    }
  }
  return {
    refuses: (tenant, lane) =>
      (lane === undefined ? LANES : [lane]).every(one => lanes[one].refuses(tenant)),
    watch: ({ submit, quote }) => ({
      submit: submission => watched(submission, () => submit(submission), outcome =>
        outcome.kind === 'accepted' ? !outcome.replayed : isAnswer(outcome)),
      quote: submission => watched(submission, () => quote(submission), outcome =>
        outcome.kind === 'quoted' || isAnswer(outcome)),
    }),
  }
}

type Unaccepted = { readonly kind: 'reused' } |
  { readonly kind: 'refused', readonly refusal: { readonly code: string } }

/** Whether `lookup` gave it; the others are given where nothing has come through. */
function isAnswer (outcome: Unaccepted): boolean {
  return outcome.kind === 'refused' && !['expired', 'internal'].includes(outcome.refusal.code)
}

/** Tenants whose late preflights are remembered. */
const MAX_TENANTS = 10_000

function createLane (behindAfterMs: number, now: () => number) {
  let decidedAtMs = -Infinity
  const createOwn = () => createGate(behindAfterMs, beganAtMs => now() - beganAtMs)
  const all = createGate(behindAfterMs, beganAtMs => now() - Math.max(beganAtMs, decidedAtMs))
  const tenants = new LRUCache<string, ReturnType<typeof createGate>>({ max: MAX_TENANTS })
  return {
    isBehind: all.isBehind,
    oldestMs: () => now() - (all.oldest() ?? now()),
    refuses: (tenant: string): boolean => all.refuses() || tenants.get(tenant)?.refuses() === true,
    begin: (tenant: string): End => {
      const own = tenants.get(tenant) ?? createOwn()
      tenants.set(tenant, own)
      const ends = [all.begin(now()), own.begin(now())]
      return decided => {
        // Nobody may have asked while this one grew old.
        all.isBehind()
        own.isBehind()
        if (decided) decidedAtMs = now()
        for (const end of ends) end(decided)
      }
    },
  }
}

/** Preflights under way, and whether they wait for too long: told by when the oldest one began. */
function createGate (behindAfterMs: number, waitingMs: (beganAtMs: number) => number) {
  // In the order of their beginning, so the first is the oldest.
  const beganAt = new Map<object, number>()
  let behind = false
  const oldest = (): number | undefined => {
    const [first] = beganAt.values()
    return first
  }
  const waits = (atLeastMs: number): boolean => {
    const beganAtMs = oldest()
    return beganAtMs !== undefined && waitingMs(beganAtMs) >= atLeastMs
  }
  const isBehind = (): boolean => {
    behind ||= waits(behindAfterMs)
    return behind
  }
  return {
    oldest,
    isBehind,
    refuses: (): boolean => isBehind() && beganAt.size > 0,
    begin: (beganAtMs: number): End => {
      const ticket = {}
      beganAt.set(ticket, beganAtMs)
      return decided => {
        beganAt.delete(ticket)
        if (decided && !waits(behindAfterMs / 2)) behind = false
      }
    },
  }
}
