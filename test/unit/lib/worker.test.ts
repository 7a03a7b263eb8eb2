import { describe, expect, it } from 'vitest'
import { createLog } from '../../../services/lib/log.ts'
import { createMetrics } from '../../../services/lib/metrics.ts'
import type { Stage } from '../../../services/lib/stage.ts'
import { createSteps } from '../../../services/lib/steps.ts'
import { createWorker, type WorkerParts } from '../../../services/lib/worker.ts'
import { echoStage, plainWire, rawMessage } from './engine-bench.ts'

describe('a worker', () => {
  it('knows the age of the oldest message in work, of all partitions', async () => {
    const common = { metrics: createMetrics(), log: createLog('x', { level: 'silent' }) }
    const ages: number[] = []
    const worker = createWorker({
      ...common,
      stage: echoStage({
        decide: async messages => {
          ages.push(worker.ages())
          return messages.map(message => ({ finishes: [message], emits: [] }))
        },
      }) as unknown as Stage,
      subscription: { group: 'g', topics: [] },
      wire: plainWire,
      emitter: { emit: async () => {}, seal: async () => new Map(), send: async () => {} },
      deadLetters: { admit: () => {}, send: async () => {}, alive: () => {} },
      steps: createSteps(common),
      clock: { now: () => 9_500 },
    } satisfies WorkerParts)
    const { signal } = new AbortController()
    const deliver = (partition: number, timestampMs: number) => worker.onDelivery({
      topic: 'rows.submitted.small',
      partition,
      messages: [{ ...rawMessage(0), partition, timestampMs }],
      signal,
      commit: async () => {},
    })
    await Promise.all([deliver(0, 9_000), deliver(1, 2_000)])
    expect(ages[0]).toBe(7.5)
    expect([worker.ages(), worker.unfinished()]).toEqual([0, 0])
  })
})
