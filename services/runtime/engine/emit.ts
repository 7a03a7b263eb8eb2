import type { Lane } from '../../topology.ts'
import type { OutgoingMessage, Producer } from '../kafka/bus.ts'
import { isTracing, traceHeaders } from '../platform/tracing.ts'
import { eventLoop } from '../platform/event-loop.ts'
import type { Emission, MessageCodec } from './stage.ts'

/** Encoded messages by lane. Each lane has a producer, so that lanes do not block others. */
type Sealed = ReadonlyMap<Lane, readonly OutgoingMessage[]>

export type Emitter = {
  /** Seals and sends all; resolves when the brokers have acknowledged all of them. */
  readonly emit: (emissions: readonly Emission[], signal?: AbortSignal) => Promise<void>
  /** The two halves of `emit`, for callers that act in between. */
  readonly seal: (emissions: readonly Emission[]) => Promise<Sealed>
  readonly send: (sealed: Sealed, signal?: AbortSignal) => Promise<void>
}

/** Messages sealed before the event loop runs again. */
const SEALED_AT_ONCE = 2

/** Seals and sends emissions. Each producer keeps the order; producers send concurrently. */
export function createEmitter (
  { messageCodec, producerOf }: {
    readonly messageCodec: MessageCodec
    readonly producerOf: (lane: Lane) => Producer
  }
): Emitter {
  const seal = async (emissions: readonly Emission[]): Promise<Sealed> => {
    const sealed = new Map<Lane, OutgoingMessage[]>()
    for (let from = 0; from < emissions.length; from += SEALED_AT_ONCE) {
      const some = emissions.slice(from, from + SEALED_AT_ONCE)
      const { lane = 'bulk', value } = some[0] ?? {}
      if (from > 0 || lane === 'bulk') await eventLoop.yield(lane, value?.tenant)
      const messages = await Promise.all(some.map(async emission => {
        const message = await messageCodec.encode(emission)
        const trace = isTracing() ? emission.trace ?? traceHeaders() : undefined
        const headers = { ...message.headers, ...emission.partitions, ...trace }
        return { ...message, headers }
      }))
      for (const [index, emission] of some.entries()) {
        const others = sealed.get(emission.lane) ?? []
        sealed.set(emission.lane, others)
        others.push(messages[index] as OutgoingMessage)
      }
    }
    return sealed
  }
  const send = async (sealed: Sealed, signal?: AbortSignal) => {
    await Promise.all([...sealed].map(([lane, messages]) =>
      producerOf(lane).send(messages, signal)))
  }
  const emit = async (emissions: readonly Emission[], signal?: AbortSignal) =>
    send(await seal(emissions), signal)
  return { emit, seal, send }
}
