import type { OutgoingMessage, RawMessage } from '../kafka/bus.ts'
import type { Emission, Incoming } from './stage.ts'

/**
 * What became of a raw message: one to decide, one that concerns nobody any more (`why` is one of
 * few codes, counted by it), or one that can never be read.
 */
export type Decoded =
  | { readonly kind: 'message', readonly message: Incoming }
  | { readonly kind: 'skip', readonly why: string }
  | { readonly kind: 'dead', readonly reason: string }

/** Between bytes on a topic and what stages see: decoding, keys and seals. */
export type MessageCodec = {
  readonly decode: (raw: RawMessage) => Promise<Decoded>
  readonly encode: (emission: Emission) => Promise<OutgoingMessage>
}
