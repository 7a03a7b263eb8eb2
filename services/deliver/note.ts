import type { Claim, Note } from '../jobs/deliveries.ts'
import type { AttemptOutcome, AttemptReason } from '../jobs/delivery-history.ts'
import type { Clock } from '../lib/clock.ts'
import type { Answer, Sent } from './attempt.ts'
import { waitMs } from './schedule.ts'

export type NoteParts = {
  /** Redis time. */
  readonly clock: Clock
  readonly waitsMs: readonly number[]
  /** An attempt that takes longer makes its receiver a slow one. */
  readonly slowAfterMs: number
  readonly random?: () => number
}

/** What an attempt leaves behind: its entry in the history, and when another one is due, if any. */
export function noteOf (
  parts: NoteParts, claim: Claim, { answer, durationMs, atMs }: Sent & { readonly atMs: number }
): Note {
  const outcome = outcomeOf(parts, claim, answer)
  const { tenant, job, event, attempt, type } = claim
  const { state, nextAtMs } = outcome
  return {
    state,
    pace: durationMs < parts.slowAfterMs ? 'quick' : 'slow',
    ...nextAtMs === undefined ? {} : { dueAtMs: nextAtMs },
    attempt: {
      tenant,
      job,
      event,
      attempt,
      type,
      atMs,
      outcome: state === 'waiting' ? 'failed' : state,
      reason: reasonOf(answer),
      httpStatus: answer.kind === 'answered' ? answer.status : 0,
      durationMs,
      nextAtMs,
    },
  }
}

type Outcome = {
  readonly state: 'waiting' | Exclude<AttemptOutcome, 'failed'>
  readonly nextAtMs: number | undefined
}

function outcomeOf (
  { waitsMs, clock, random }: NoteParts, { attempt, once }: Claim, answer: Answer
): Outcome {
  const final = (state: Exclude<AttemptOutcome, 'failed'>) => ({ state, nextAtMs: undefined })
  if (answer.kind === 'failed' && answer.reason === 'erased') return final('discarded')
  if (isSuccess(answer)) return final('delivered')
  if (answer.kind === 'answered' && answer.status === 410) return final('gone')
  const retryAfterMs = answer.kind === 'answered' ? answer.retryAfterMs : undefined
  const options = { waitsMs, retryAfterMs, ...random === undefined ? {} : { random } }
  const laterMs = once ? undefined : waitMs(attempt, options)
  if (laterMs === undefined) return final('exhausted')
  return { state: 'waiting', nextAtMs: clock.now() + laterMs }
}

function reasonOf (answer: Answer): AttemptReason | '' {
  if (answer.kind === 'failed') return answer.reason
  if (isSuccess(answer)) return ''
  return answer.status >= 300 && answer.status < 400 ? 'redirect' : 'status'
}

function isSuccess (answer: Answer): boolean {
  return answer.kind === 'answered' && answer.status >= 200 && answer.status < 300
}
