import type { Completed } from '../../schemas/types.ts'
import { indexes } from '../../services/runtime/platform/bitmap.ts'
import type { Bus, OutgoingMessage } from '../../services/runtime/kafka/bus.ts'
import type { Codec } from '../../services/runtime/kafka/registry.ts'
import { logicalTopic } from '../../services/runtime/platform/topics.ts'
import { readMessageRows } from '../../services/jobs/results/block.ts'
import type { TopicName } from '../../services/topology.ts'
import type { Chaos } from './chaos.ts'

/** A message corrupted in transit: only its headers, which name its rows, are readable. */
export type Poisoned = {
  readonly topic: TopicName
  readonly value: Buffer
  readonly tenant: string
  readonly job: string
  /** Indexes within the job of the rows it was about. */
  readonly rows: readonly number[]
  /** Indexes within the job of the rows whose inputs it held. */
  readonly inputs: readonly number[]
}

export type Poison = {
  /** The bus, but that some messages with rows arrive broken. */
  readonly bus: Pick<Bus, 'producer'>
  readonly poisoned: readonly Poisoned[]
  /** Breaks nothing from now on. */
  readonly stopFaults: () => void
}

export type PoisonOptions = {
  readonly bus: Bus
  readonly codec: Codec
  readonly chaos: Chaos
  /** Of a message with rows to arrive broken. */
  readonly probability: number
}

/**
 * Corrupts messages when they are sent, so that every read of a topic finds the same ones; of
 * some an intact copy arrives as well, before or after.
 */
export function createPoison ({ bus, codec, chaos, probability }: PoisonOptions): Poison {
  const poisoned: Poisoned[] = []
  let isStopped = probability === 0
  const poison = async (message: OutgoingMessage): Promise<Arrival> => {
    const topic = logicalTopic(message.topic)?.topic
    if (topic?.startsWith('rows.') !== true || message.value === null) return whole(message)
    if (!chaos.happens(probability)) return whole(message)
    const content = await codec.decode(topic, message.value) as Completed
    const value = chaos.happens(0.5)
      ? message.value.subarray(0, chaos.below(message.value.length))
      : await codec.encode(`${topic}-value`, { ...content, sealed: flipped(content.sealed, chaos) })
    const broken = { ...message, value }
    return {
      messages: chaos.pick([[broken], [broken], [broken, message], [message, broken]]),
      losses: [{ topic, value, ...lossOf(message.headers, content.inputs) }],
    }
  }
  const producer: Bus['producer'] = name => {
    const { send, close } = bus.producer(name)
    return {
      send: async (messages, signal) => {
        const arrivals = isStopped ? messages.map(whole) : await Promise.all(messages.map(poison))
        await send(arrivals.flatMap(arrival => arrival.messages), signal)
        poisoned.push(...arrivals.flatMap(({ losses }) => losses))
      },
      close,
    }
  }
  return { bus: { producer }, poisoned, stopFaults: () => { isStopped = true } }
}

/** What the broker gets of a message. */
type Arrival = {
  readonly messages: readonly OutgoingMessage[]
  readonly losses: readonly Poisoned[]
}

const whole = (message: OutgoingMessage): Arrival => ({ messages: [message], losses: [] })

/** Whose and which rows are lost with a message, as its headers say. */
export function lossOf (headers: OutgoingMessage['headers'], hasInputs: boolean) {
  const message = readMessageRows(headers)
  if (message === undefined) throw new Error('a message with rows names them in its headers')
  const { tenant, job, firstRow, rows } = message.coordinates
  const chunk = Array.from({ length: rows }, (_, index) => firstRow + index)
  return {
    tenant,
    job,
    rows: [...indexes(message.bitmap)].map(index => firstRow + index),
    inputs: hasInputs ? chunk : [],
  }
}

/** The bytes with one bit turned over. */
function flipped (bytes: Buffer, chaos: Chaos): Buffer {
  const changed = Buffer.from(bytes)
  const at = chaos.below(changed.length)
  changed[at] = (changed[at] ?? 0) ^ (1 << chaos.below(8))
  return changed
}
