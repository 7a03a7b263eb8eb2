import type { EngineStep, StageName } from '../../topology.ts'
import type { RawMessage } from '../kafka/bus.ts'
import { FatalError, isInfrastructure } from '../platform/errors.ts'
import { failpoint } from '../platform/failpoint.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { retryForever, type RetryOptions } from '../platform/retry.ts'
import { idsOf } from './stage.ts'

/** The stage, consumer group and message of an effect. */
type StepLocation = {
  readonly stage: StageName
  readonly group: string
  readonly topic: string
  readonly partition: number
  /** The first message of the batch. */
  readonly offset: bigint
}

/** A hook for simulations: it throws to simulate a crash before an effect. */
export type Effects = {
  readonly before: (step: EngineStep, location: StepLocation) => Promise<void>
}

export type StepContext = {
  readonly location: StepLocation
  readonly signal: AbortSignal
  /** The messages of the effect, for logs. */
  readonly messages?: readonly RawMessage[]
}

/** The messages of one call of `decide`, with their context. */
export type MessageBatch = StepContext & {
  /** Marks a message as completed, so that its offset may be committed. */
  readonly complete: (raw: RawMessage) => void
  /** When the decision started, milliseconds since 1970. */
  readonly startedMs?: number
  /** The message, which is the only one, has ended earlier processes: it is not decided. */
  readonly isPoison?: boolean
  /** The dead letter whose rows are being emitted. */
  readonly deadLettered?: readonly RawMessage[]
}

/** Dependencies of everything that runs a stage. */
export type StepsDeps = Pick<RetryOptions, 'sleep' | 'random'> & {
  readonly metrics: Metrics
  readonly log: Log
}

/** Runs effects with hook, failpoint, retries and metrics. */
export class Steps {
  readonly #deps: StepsDeps & { readonly effects?: Effects | undefined }
  /** The effects that are retrying an infrastructure error. */
  readonly #waiting = new Set<object>()

  constructor (deps: StepsDeps & { readonly effects?: Effects | undefined }) {
    this.#deps = deps
  }

  /** Runs one effect: not after the signal is aborted, with retries of infrastructure errors. */
  async run<T> (step: EngineStep, action: () => Promise<T>, at: StepContext): Promise<T> {
    const { metrics, log, effects, ...backoff } = this.#deps
    const { location, signal, messages = [] } = at
    const labels = { stage: location.stage, step }
    await hook(effects, step, location)
    failpoint(`${location.stage}.${step}`, messages)
    const startedAt = performance.now()
    const effect = {}
    const onRetry = (error: unknown, attempt: number) => {
      this.#waiting.add(effect)
      metrics.count('stage_retries_total', { ...labels, cause: 'infrastructure' })
      log.warn({ err: error, attempt, step, ...idsOf(messages) },
        'dependency unavailable, retrying')
    }
    try {
      return await retryForever(action, { ...backoff, signal, when: isInfrastructure, onRetry })
    } finally {
      this.#waiting.delete(effect)
      metrics.observe('stage_step_seconds', labels, (performance.now() - startedAt) / 1_000)
    }
  }

  /** Number of partitions that are retrying an infrastructure error. */
  stalled (): number {
    return this.#waiting.size
  }
}

/** An error of the hook simulates a crash, so it must not be retried. */
async function hook (effects: Effects | undefined, step: EngineStep, location: StepLocation) {
  try {
    await effects?.before(step, location)
  } catch (cause) {
    throw new FatalError(`stopped before step ${step}`, { cause })
  }
}

/** Whether an error is neither the abort of this delivery nor fatal for the process. */
export function mayRetry (error: unknown, { signal }: StepContext): boolean {
  return !signal.aborted && !(error instanceof FatalError)
}
