import { ENGINE_STEPS, type EngineStep, type StageName } from '../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Log } from '../platform/log.ts'
import { idsOf } from './message-ids.ts'
import type { Metrics } from '../platform/metrics.ts'
import { retryForever, type RetryOptions } from '../platform/retry.ts'

/** 1 decode 2 open 3 decide 4 seal 5 produce 6 dead-letter 7 afterProduced 8 commit. */
export type StepNumber = 1 | 2 | 3 | 4 | 5 | 6 | 7 | 8

/** The stage, consumer group and message of an effect. */
export type StepLocation = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  /** The first message of the batch. */
  readonly offset: bigint
}

/** A hook for simulations: it throws to simulate a crash before an effect. */
export type Effects = {
  readonly before: (step: StepNumber, location: StepLocation) => Promise<void>
}

export type Steps = {
  /** Runs one effect: not after the signal is aborted, with retries of infrastructure errors. */
  readonly step: <T>(step: StepNumber, action: () => Promise<T>, at: StepContext) => Promise<T>
  /** Number of partitions that are retrying an infrastructure error. */
  readonly stalled: () => number
}

export type StepContext = {
  readonly location: StepLocation
  readonly signal: AbortSignal
  /** The messages of the effect, for logs. */
  readonly messages?: readonly RawMessage[]
}

/** Dependencies of everything that runs a stage. */
export type StepsDeps = Pick<RetryOptions, 'sleep' | 'random'> & {
  readonly metrics: Metrics
  readonly log: Log
}

/** Runs effects with hook, failpoint, retries and metrics. */
export function createSteps (
  { metrics, log, effects, ...backoff }: StepsDeps & { readonly effects?: Effects | undefined }
): Steps {
  const waiting = new Set<object>()
  const step = async <T>(number: StepNumber, action: () => Promise<T>, at: StepContext) => {
    const { location, signal, messages = [] } = at
    const labels = { stage: location.stage, step: ENGINE_STEPS[number - 1] as EngineStep }
    await hook(effects, number, location)
    failpoint(`${location.stage}.${labels.step}`, messages)
    const startedAt = performance.now()
    const effect = {}
    const onRetry = (error: unknown, attempt: number) => {
      waiting.add(effect)
      metrics.count('stage_retries_total', { ...labels, cause: 'infrastructure' })
      const about = { err: error, attempt, step: labels.step, ...idsOf(messages) }
      log.warn(about, 'dependency unavailable, retrying')
    }
    try {
      return await retryForever(action, { ...backoff, signal, when: isInfrastructure, onRetry })
    } finally {
      waiting.delete(effect)
      metrics.observe('stage_step_seconds', labels, (performance.now() - startedAt) / 1_000)
    }
  }
  return { step, stalled: () => waiting.size }
}

/** Whether an error is neither the abort of this delivery nor fatal for the process. */
export function mayRetry (error: unknown, { signal }: StepContext): boolean {
  return !signal.aborted && !(error instanceof FatalError)
}

/** An error of the hook simulates a crash, so it must not be retried. */
async function hook (effects: Effects | undefined, number: StepNumber, location: StepLocation) {
  try {
    await effects?.before(number, location)
  } catch (cause) {
    throw new FatalError(`stopped before step ${number}`, { cause })
  }
}
