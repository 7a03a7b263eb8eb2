import type { RawMessage } from '../kafka/bus.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { Emitter } from './emit.ts'
import type { Stage } from './stage.ts'
import type { At, Steps, StepsDeps } from './steps.ts'
import type { MessageCodec } from './wire.ts'

/** What takes messages of a stage through its steps. */
export type ProcessDeps = StepsDeps & {
  readonly stage: Stage
  readonly wire: MessageCodec
  readonly emitter: Emitter
  readonly deadLetters: DeadLetters
  readonly steps: Steps
  /** Told of every message that was decided for good. */
  readonly finished: (raw: RawMessage) => void
}

/** Where a batch stands, and who is told that a message needs no more. */
export type Batch = At & {
  readonly finish: (raw: RawMessage) => void
  /** When its decisions were begun, milliseconds since 1970. */
  readonly startedMs?: number
  /** The message that can't be decided, while what is said of its rows goes out. */
  readonly buried?: readonly RawMessage[]
}
