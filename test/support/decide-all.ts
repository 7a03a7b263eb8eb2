import { runStage } from '../../services/runtime/engine/engine.ts'
import type { Incoming, Stage } from '../../services/runtime/engine/stage.ts'
import type { Bus, ConsumeOptions } from '../../services/runtime/kafka/bus.ts'
import { createLog } from '../../services/runtime/platform/log.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import type { StageName } from '../../services/topology.ts'
import { createManualClock } from './stage-messages.ts'

type Sent = (value: { readonly tenant: string }) => void

/** Has one delivery of a topic decided by the engine, and observes every message it sends. */
export async function decideAll<S extends StageName> (
  stage: Stage<S>,
  { topic, messages }: { readonly topic: string, readonly messages: readonly Incoming[] },
  onSent: Sent
): Promise<void> {
  const consumed: ConsumeOptions[] = []
  await runStage(stage, {
    bus: {
      consume: async options => {
        consumed.push(options)
        return { ready: () => true, stop: async () => {} }
      },
      producer: () => ({ send: async () => {}, close: async () => {} }),
    } satisfies Partial<Bus> as unknown as Bus,
    messageCodec: {
      decode: async raw =>
        ({ kind: 'message', message: { ...messages[Number(raw.offset)]!, raw } }),
      encode: async ({ topic, value }) => {
        onSent(value)
        return { topic, key: value.tenant, value: null, headers: {} }
      },
    },
    subscriptions: [{ group: 'g', topics: [], lane: 'bulk' }],
    metrics: createMetrics(),
    log: createLog('x', { level: 'silent' }),
    clock: createManualClock(),
    flushHeldMs: 0,
  })
  await consumed[0]?.onDelivery({
    topic,
    partition: 0,
    messages: messages.map(({ raw, value }, offset) => {
      const { tenant } = value as { readonly tenant: string }
      return { ...raw, offset: BigInt(offset), headers: { tenant } }
    }),
    more: () => [],
    signal: new AbortController().signal,
    commit: () => {},
    redeliver: () => {},
  })
}
