import type {
  Bus, ConsumeOptions, OutgoingMessage, RawMessage,
} from '../../../../services/runtime/kafka/bus.ts'
import { runStage, type EngineDeps } from '../../../../services/runtime/engine/engine.ts'
import { createLog } from '../../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import type {
  Decision, Incoming, MessageCodec, Stage,
} from '../../../../services/runtime/engine/stage.ts'
import type { Subscription } from '../../../../services/runtime/platform/topics.ts'

export type Read = Incoming<'rows.submitted'>
type NormalizeStage = Stage<'normalize'>

const subscription: Subscription = {
  group: 'normalize.small', topics: ['rows.submitted.small'], lane: 'small',
}

/** A raw message whose text says what the message codec below makes of it. */
export function rawMessage (offset: number, text = `m${offset}`): RawMessage {
  return {
    topic: 'rows.submitted.small',
    partition: 0,
    offset: BigInt(offset),
    key: Buffer.from(`key${offset}`),
    value: Buffer.from(text),
    headers: { tenant: 't', chunkRows: '2' },
    timestampMs: 1_000,
  }
}

/** Opens `dead…` as dead, `skip…` as a skip, anything else as a message. */
export const plainCodec: MessageCodec = {
  decode: async raw => {
    const text = String(raw.value)
    if (text.startsWith('dead')) return { kind: 'dead', reason: 'bad bytes' }
    if (text.startsWith('skip')) return { kind: 'skip', why: 'no_key' }
    const value = { job: text }
    const message = { topic: 'rows.submitted', value, rows: () => ({ inputs: [] }), raw }
    return { kind: 'message', message: message as unknown as Incoming }
  },
  encode: async ({ topic, value }) => {
    const { job } = value as { job: string }
    return { topic, key: job, value: Buffer.from(job), headers: {} }
  },
}

/** The text of a message that `rawMessage` made. */
export const textOf = (message: Read): string => message.value.job

/** A decision with one emission of that name. */
export function decisionFor (
  completes: readonly Read[], name: string, more: Partial<Decision<'normalize'>> = {}
) {
  const value = { job: name } as never
  const emit = { topic: 'rows.normalized', lane: 'small', value, rows: {} as never } as const
  return { completes, emits: [emit], ...more }
}

/** Answers each message with one message of the same name. */
export const echo = (messages: readonly Read[], more?: Partial<Decision<'normalize'>>) =>
  messages.map(message => decisionFor([message], textOf(message), more))

/** Completes messages without an answer. */
export const done = (messages: readonly Read[]) =>
  messages.map(message => ({ completes: [message], emits: [] }))

/** A stage that answers each message. */
export function echoStage (more: Partial<NormalizeStage> = {}): NormalizeStage {
  return {
    name: 'normalize',
    batch: 10,
    decide: async messages => echo(messages),
    resolveDead: async () => [],
    forget: () => {},
    ...more,
  }
}

/** A stage under the engine that only decides. */
export const deciding = (decide: NormalizeStage['decide'], deps?: Partial<EngineDeps>) =>
  benchOf(echoStage({ decide }), deps)

/** A bus that records every effect and fails on demand. */
function notingBus () {
  const effects: string[] = []
  const letters: OutgoingMessage[] = []
  const faults: Error[] = []
  const consumed: ConsumeOptions[] = []
  const send = async (messages: readonly OutgoingMessage[]) => {
    const fault = faults.shift()
    if (fault !== undefined) throw fault
    for (const { topic, value, headers } of messages) {
      effects.push(`${topic} ${value === null ? headers.done_why : String(value)}`)
    }
    letters.push(...messages.filter(({ topic }) => topic.endsWith('.dead')))
  }
  const bus: Bus = {
    consume: async options => {
      consumed.push(options)
      return { ready: () => true, stop: async () => { effects.push('stopped') } }
    },
    producer: () => ({ send, close: async () => {} }),
    topicNames: async () => new Set(),
    lastValue: async () => undefined,
    watchPartitions: () => () => 1,
    close: async () => {},
  }
  return { bus, effects, letters, faults, consumed }
}

type Given = {
  readonly signal?: AbortSignal
  readonly partition?: number
  /** Messages that have arrived when the stage fetches more. */
  readonly later?: readonly (readonly RawMessage[])[]
}

/** A stage under the engine, on a bus that records every effect. */
export async function benchOf (stage: NormalizeStage, more: Partial<EngineDeps> = {}) {
  const { bus, effects, letters, faults, consumed } = notingBus()
  const metrics = createMetrics()
  const running = await runStage(stage, {
    bus,
    messageCodec: plainCodec,
    metrics,
    log: createLog('test', { level: 'silent' }),
    subscriptions: [subscription],
    clock: { now: () => 5_000 },
    // Only on request: otherwise a failure would appear in a later test.
    flushHeldMs: 0,
    sleep: async (_, signal) => { signal?.throwIfAborted() },
    ...more,
  })
  const options = consumed.at(-1) as ConsumeOptions
  /** Resolves to the redelivery that the stage asked for, if any. */
  const deliver = async (
    messages: readonly RawMessage[],
    { signal = new AbortController().signal, partition = 0, later = [] }: Given = {}
  ) => {
    const coming = [...later]
    let outcome: object = { kind: 'done' }
    await options.onDelivery({
      topic: 'rows.submitted.small',
      partition,
      messages: messages.map(message => ({ ...message, partition })),
      more: () => coming.shift() ?? [],
      signal,
      commit: offset => { effects.push(`commit ${offset}`) },
      redeliver: (fromOffset, afterMs) => { outcome = { kind: 'redeliver', fromOffset, afterMs } },
    })
    return outcome
  }
  /** The value of a metric that the stage itself has. */
  const gauge = async (name: string) => {
    const labels = 'stage="normalize",group="normalize.small"'
    const text = await metrics.text()
    return Number(text.split('\n').find(line => line.startsWith(`${name}{${labels}}`))
      ?.split(' ')[1])
  }
  const { onAssigned: assigned } = options
  return { effects, letters, faults, deliver, assigned, running, metrics, gauge }
}
