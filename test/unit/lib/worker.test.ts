import { setImmediate } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { createLog } from '../../../services/lib/log.ts'
import { createMetrics } from '../../../services/lib/metrics.ts'
import type { Stage } from '../../../services/lib/stage.ts'
import { createSteps } from '../../../services/lib/steps.ts'
import { createWorker, type WorkerParts } from '../../../services/lib/worker.ts'
import type { Lane } from '../../../services/topology.ts'
import { echoStage, plainWire, rawMessage } from './engine-bench.ts'

function workerOf (stage: Partial<Stage>, lane: Lane) {
  const common = { metrics: createMetrics(), log: createLog('x', { level: 'silent' }) }
  const worker = createWorker({
    ...common,
    stage: echoStage(stage as never) as unknown as Stage,
    subscription: { group: 'g', topics: [], lane },
    wire: plainWire,
    emitter: { emit: async () => {}, seal: async () => new Map(), send: async () => {} },
    deadLetters: { admit: () => {}, send: async () => {}, alive: () => {} },
    steps: createSteps(common),
    clock: { now: () => 9_500 },
  } satisfies WorkerParts)
  const deliver = (
    partition: number, timestampMs: number, signal = new AbortController().signal
  ) => worker.onDelivery({
    topic: `rows.submitted.${lane}`,
    partition,
    messages: [{ ...rawMessage(0), partition, timestampMs }],
    signal,
    commit: async () => {},
  })
  return { worker, deliver }
}

const done = (messages: Parameters<Stage['decide']>[0]) =>
  messages.map(message => ({ finishes: [message], emits: [] }))

describe('a worker', () => {
  it('knows the age of the oldest message in work, of all partitions', async () => {
    const ages: number[] = []
    const { worker, deliver } = workerOf({
      decide: async messages => {
        ages.push(worker.ages())
        return done(messages)
      },
    }, 'small')
    await Promise.all([deliver(0, 9_000), deliver(1, 2_000)])
    expect(ages[0]).toBe(7.5)
    expect([worker.ages(), worker.unfinished()]).toEqual([0, 0])
  })

  it.each([
    ['small', [1, 2, 3]],
    ['bulk', [1, 1, 1]],
  ] as const)('works on partitions of the lane %s as its stage says', async (lane, expected) => {
    let inWork = 0
    const seen: number[] = []
    const { deliver } = workerOf({
      bulkAtOnce: 1,
      decide: async messages => {
        seen.push(++inWork)
        await setImmediate()
        inWork--
        return done(messages)
      },
    }, lane)
    await Promise.all([0, 1, 2].map(partition => deliver(partition, 9_000)))
    expect(seen).toEqual(expected)
  })

  it('leaves alone what waited until it was another\'s, and knows its age', async () => {
    const decided: number[] = []
    const revoked = new AbortController()
    const { worker, deliver } = workerOf({
      bulkAtOnce: 1,
      decide: async messages => {
        decided.push(messages[0]!.raw.partition)
        expect(worker.ages()).toBe(7.5)
        revoked.abort()
        return done(messages)
      },
    }, 'bulk')
    const outcomes = await Promise.all([deliver(0, 9_000), deliver(1, 2_000, revoked.signal)])
    expect(outcomes).toEqual([{ go: 'next' }, { go: 'next' }])
    expect([decided, worker.ages(), worker.unfinished()]).toEqual([[0], 0, 0])
  })
})
