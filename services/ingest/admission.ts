import type { Submission, Submitter } from '../jobs/submit.ts'
import type { Metrics } from '../lib/metrics.ts'
import { laneOf } from '../lib/topics.ts'
import { LANES, type Lane } from '../topology.ts'

export type Admission = {
  /** True when a request of this lane would wait in vain; without a lane, when any would. */
  readonly refuses: (lane?: Lane) => boolean
  /** The same submitter, whose preflights are watched from their claim to their outcome. */
  readonly watch: (submitter: Submitter) => Submitter
}

export type AdmissionOptions = {
  /** Age of the oldest preflight of a lane from which on its requests are refused. */
  readonly behindAfterMs: number
  readonly metrics?: Pick<Metrics, 'watch'>
  /** A clock that never goes back, in ms. */
  readonly now?: () => number
}

/** `decided` by the stages before `accept`, which therefore move; or nobody can say. */
type End = (decided: boolean) => void

/**
 * Tells when the stages before `accept` are behind, by the age of the oldest preflight this process
 * has under way in each lane. That is the age of the oldest chunk not yet processed as far as it
 * matters: later than `acceptBy` nobody waits for a chunk, and stages skip it. No stage has to
 * report anything, so a consumer group that is dead is noticed like one that is slow, and an idle
 * or new pipeline, for which nobody waits, is never behind. Every instance judges by what its own
 * clients wait for: the stages are the same for all, and a report of others could only be older.
 *
 * A lane is behind until a preflight is decided and none is left that waits for half as long; while
 * it is, one request at a time is let in, when nothing else is under way, to find out.
 */
export function createAdmission (
  { behindAfterMs, metrics, now = () => performance.now() }: AdmissionOptions
): Admission {
  const gates = { small: createGate(behindAfterMs, now), bulk: createGate(behindAfterMs, now) }
  for (const lane of LANES) {
    metrics?.watch('preflight_oldest_age_seconds', { lane }, () => gates[lane].ageMs() / 1_000)
    metrics?.watch('preflight_behind', { lane }, () => Number(gates[lane].isBehind()))
  }
  const watched = async <T>(
    { inputs }: Submission, work: () => Promise<T>, isDecided: (outcome: T) => boolean
  ): Promise<T> => {
    const end = gates[laneOf(inputs.length)].begin()
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
    refuses: lane => (lane === undefined ? LANES : [lane]).every(one => gates[one].refuses()),
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

function createGate (behindAfterMs: number, now: () => number) {
  // In the order of their beginning, so the first is the oldest.
  const beganAt = new Map<object, number>()
  let behind = false
  const ageMs = (): number => {
    const [oldest] = beganAt.values()
    return oldest === undefined ? 0 : now() - oldest
  }
  const isBehind = (): boolean => {
    behind ||= ageMs() >= behindAfterMs
    return behind
  }
  return {
    ageMs,
    isBehind,
    refuses: (): boolean => isBehind() && beganAt.size > 0,
    begin: (): End => {
      const ticket = {}
      beganAt.set(ticket, now())
      return decided => {
        // Nobody may have asked while this one grew old.
        isBehind()
        beganAt.delete(ticket)
        if (decided && ageMs() < behindAfterMs / 2) behind = false
      }
    },
  }
}
