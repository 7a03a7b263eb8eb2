import type { StageName } from '../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Log } from '../platform/log.ts'
import { idsOf } from './message-ids.ts'
import type { Metrics } from '../platform/metrics.ts'
import { retryForever, type RetryOptions } from '../platform/retry.ts'

/** 1 decode 2 open 3 decide 4 seal 5 produce 6 dead-letter 7 afterProduced 8 commit. */
export type StepNumber = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8

/** Where an effect is about to happen. */
export type StepPlace = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  /** The first message that is being processed. */
  readonly offset: bigint
}

/** Lets a simulation stop a stage before any effect, as a crash would: by throwing. */
export type Effects = { readonly before: (step: StepNumber, place: StepPlace) => Promise<void> }

export type Steps = {
  /** One effect: not begun once the signal is aborted, repeated while infrastructure is broken. */
  readonly step: <T>(step: StepNumber, action: () => Promise<T>, at: At) => Promise<T>
  /** Partitions that wait for broken infrastructure just now. */
  readonly blocked: () => number
}

export type At = {
  readonly place: StepPlace
  readonly signal: AbortSignal
  /** What is worked on, for logs. */
  readonly messages?: readonly RawMessage[]
}

/** What everything that works for a stage needs. */
export type StepsDeps = Pick<RetryOptions, 'sleep' | 'random'> & {
  readonly metrics: Metrics
  readonly log: Log
}

const NAMES = [
  '', 'decode', 'open', 'decide', 'seal', 'produce', 'dead', 'after', 'commit',
] as const

/** Runs effects one by one, with what is the same for all: the hook, retries, time, counts. */
export function createSteps (
  { metrics, log, effects, ...backoff }: StepsDeps & { readonly effects?: Effects | undefined }
): Steps {
  const waiting = new Set<object>()
  const step = async <T>(number: StepNumber, action: () => Promise<T>, at: At) => {
    const { place, signal, messages = [] } = at
    const labels = { stage: place.stage, step: NAMES[number] }
    await hook(effects, number, place)
    failpoint(`${place.stage}.${labels.step}`)
    const startedAt = performance.now()
    const ticket = {}
    const onRetry = (error: unknown, attempt: number) => {
      waiting.add(ticket)
      metrics.count('stage_retries_total', { ...labels, cause: 'infrastructure' })
      const about = { err: error, attempt, step: labels.step, ...idsOf(messages) }
      log.warn(about, 'infrastructure is missing, waiting')
    }
    try {
      return await retryForever(action, { ...backoff, signal, when: isInfrastructure, onRetry })
    } finally {
      waiting.delete(ticket)
      metrics.observe('stage_step_seconds', labels, (performance.now() - startedAt) / 1_000)
    }
  }
  return { step, blocked: () => waiting.size }
}

/** Whatever the hook throws stands for a crash, which no retry may soften. */
async function hook (effects: Effects | undefined, number: StepNumber, place: StepPlace) {
  try {
    await effects?.before(number, place)
  } catch (cause) {
    throw new FatalError(`stopped before step ${number}`, { cause })
  }
}
