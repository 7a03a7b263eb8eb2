import type { RawMessage } from '../kafka/bus.ts'
import type { DeadLetters } from './dead-letters.ts'
import type { Emitter } from './emit.ts'
import type { Stage, MessageCodec } from './stage.ts'
import type { StepContext, Steps, StepsDeps } from './steps.ts'

/** Dependencies of the steps of a stage. */
export type ProcessDeps = StepsDeps & {
  readonly stage: Stage
  readonly messageCodec: MessageCodec
  readonly emitter: Emitter
  readonly deadLetters: DeadLetters
  readonly steps: Steps
  /** Called for every completed message that is not a dead letter. */
  readonly onCompleted: (raw: RawMessage) => void
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
