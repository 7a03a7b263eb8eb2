import type { OutgoingMessage, RawMessage } from '../kafka/bus.ts'
import type { Emission, Incoming } from './stage.ts'

/**
 * A decoded message: one to decide, one to skip (`why` is one of a few codes for metrics), or one
 * that can never be decoded.
 */
export type Decoded =
  | { readonly kind: 'message', readonly message: Incoming }
  | { readonly kind: 'skip', readonly why: string }
  | { readonly kind: 'dead', readonly reason: string }

/** Converts between Kafka messages and the values of stages: encoding, keys and encryption. */
export type MessageCodec = {
  readonly decode: (raw: RawMessage) => Promise<Decoded>
  readonly encode: (emission: Emission) => Promise<OutgoingMessage>
}
