import { createLog } from '../../services/runtime/platform/log.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import type { Incoming, Stage } from '../../services/runtime/engine/stage.ts'
import { Steps } from '../../services/runtime/engine/steps.ts'
import { Worker } from '../../services/runtime/engine/worker.ts'
import type { StageName } from '../../services/topology.ts'
import { createManualClock } from './stage-doubles.ts'

type Sent = (value: { readonly tenant: string }) => void

/** Has one delivery of a topic decided by a worker, and observes every message it sends. */
export async function decideAll<S extends StageName> (
  stage: Stage<S>,
  { topic, messages }: { readonly topic: string, readonly messages: readonly Incoming[] },
  onSent: Sent
): Promise<void> {
  const common = { metrics: createMetrics(), log: createLog('x', { level: 'silent' }) }
  const worker = new Worker({
    ...common,
    stage: stage as unknown as Stage,
    subscription: { group: 'g', topics: [], lane: 'bulk' },
    messageCodec: {
      decode: async raw =>
        ({ kind: 'message', message: { ...messages[Number(raw.offset)]!, raw } }),
      encode: async () => { throw new Error('nothing is sealed here') },
    },
    emitter: {
      emit: async () => {},
      seal: async emissions => {
        for (const { value } of emissions) onSent(value)
        return new Map()
      },
      send: async () => {},
    },
    deadLetters: {
      checkLimit: () => {}, send: async () => {}, report: async () => {}, reset: () => {},
    },
    steps: new Steps(common),
    clock: createManualClock(),
    readAhead: { bytes: 0, maxBytes: 0 },
  })
  await worker.onDelivery({
    topic,
    partition: 0,
    messages: messages.map(({ raw, value }, offset) => {
      const { tenant } = value as { readonly tenant: string }
      return { ...raw, offset: BigInt(offset), headers: { tenant } }
    }),
    more: () => [],
    signal: new AbortController().signal,
    commit: async () => {},
    redeliver: () => {},
  })
}
