import type {
  Bus, ConsumeOptions, Consumption, FetchedBatch, OutgoingMessage, RawMessage,
} from '../../../services/runtime/kafka/bus.ts'

export type Handler = (delivery: FetchedBatch) => Promise<void> | void

let groups = 0
export const newGroup = () => `contract-${process.pid}-${Date.now()}-${groups++}`

/** Lets a test wait for a condition that handlers bring about, without a timer. */
function createWatch () {
  const waiting = new Set<() => void>()
  return {
    changed: () => { for (const check of [...waiting]) check() },
    until: (condition: () => boolean) => new Promise<void>((resolve) => {
      const check = () => {
        if (!condition()) return
        waiting.delete(check)
        resolve()
      }
      waiting.add(check)
      check()
    }),
  }
}

export function numbered (topic: string, count: number, keys = 20): OutgoingMessage[] {
  return Array.from({ length: count }, (_, index) => ({
    topic,
    key: `key-${index % keys}`,
    value: Buffer.from(`${index}`),
    headers: { index: `${index}` },
  }))
}

export const offsetOf = (message: RawMessage | undefined) => message?.offset ?? -1n
export const after = (messages: readonly RawMessage[]) => offsetOf(messages.at(-1)) + 1n
export const distinct = (messages: readonly RawMessage[]) =>
  new Set(messages.map(({ partition, offset }) => `${partition}:${offset}`)).size
export const valuesOf = (messages: readonly RawMessage[]) =>
  messages.map(({ value }) => String(value))

/** Consumes and remembers, in one list, generations and messages as they came. */
export async function record (bus: Bus, topics: readonly string[], more: {
  readonly group?: string, readonly handle?: Handler,
} = {}) {
  const { group = newGroup(), handle = () => {} } = more
  const watch = createWatch()
  const events: ('assigned' | RawMessage)[] = []
  const seen: RawMessage[] = []
  const options: ConsumeOptions = {
    group,
    topics,
    onAssigned: () => {
      events.push('assigned')
      watch.changed()
    },
    onDelivery: async (delivery) => {
      seen.push(...delivery.messages)
      events.push(...delivery.messages)
      watch.changed()
      await handle(delivery)
      watch.changed()
    },
  }
  const consumption: Consumption = await bus.consume(options)
  return { ...watch, group, events, seen, consumption }
}
