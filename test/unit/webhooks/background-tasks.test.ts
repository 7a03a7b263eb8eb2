import { describe, expect, it } from 'vitest'
import {
  countAttempts, shipAttempts, startHistory, startQueueDepth, type HistoryDeps,
} from '../../../services/webhooks/background-tasks.ts'
import type {
  DeliveryClaim, Deliveries, AttemptRecord,
} from '../../../services/webhooks/deliveries.ts'
import type { Attempt } from '../../../services/webhooks/delivery-history.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { eventually } from '../../support/eventually.ts'

const attemptOf = (attempt: number) => ({ attempt }) as Attempt

function scene () {
  const records = new Map([['e:1', attemptOf(1)], ['e:2', attemptOf(2)]])
  const written: Attempt[] = []
  const state = { broken: false }
  const deps: HistoryDeps = {
    deliveries: {
      unshipped: async limit => new Map([...records].slice(0, limit)),
      forget: async names => { for (const name of names) records.delete(name) },
    },
    history: {
      append: async attempts => {
        if (state.broken) throw new Error('broken')
        written.push(...attempts)
      },
    },
    log: { warn: () => {} } as unknown as HistoryDeps['log'],
  }
  return { deps, records, written, state }
}

describe('the shipping of attempt records', () => {
  it('removes records from Redis only after the history has them', async () => {
    const { deps, records, written, state } = scene()
    state.broken = true
    await expect(shipAttempts(deps)).rejects.toThrow('broken')
    expect(records.size).toBe(2)
    state.broken = false
    expect(await shipAttempts(deps)).toBe(2)
    expect(written).toEqual([attemptOf(1), attemptOf(2)])
    expect(records.size).toBe(0)
  })

  it('is not ready while the history is unavailable, and recovers', async () => {
    const { deps, written, state } = scene()
    state.broken = true
    const shipping = startHistory(deps)
    await eventually(() => expect(shipping.ready()).toBe(false))
    state.broken = false
    await eventually(() => expect(shipping.ready()).toBe(true))
    expect(written).toHaveLength(2)
    await shipping.stop()
  })

  it('ships the remaining records before it stops', async () => {
    const { deps, records, written } = scene()
    const shipping = startHistory(deps)
    await eventually(() => expect(written).toHaveLength(2))
    records.set('e:3', attemptOf(3))
    await shipping.stop()
    expect(written).toHaveLength(3)
  })
})

const claim = { event: 'evt_1' } as DeliveryClaim
const recordOf = (attempt: object) =>
  ({ state: 'delivered', priority: 'quick', attempt }) as AttemptRecord

async function textAfter (attempts: readonly object[], isRecorded: boolean): Promise<string> {
  const metrics = createMetrics()
  const deliveries = { record: async () => isRecorded } as never
  const { record } = countAttempts({ metrics, deliveries })
  for (const attempt of attempts) expect(await record(claim, recordOf(attempt))).toBe(isRecorded)
  return await metrics.text()
}

describe('the metrics of webhook attempts', () => {
  it('count by outcome and reason, and have durations', async () => {
    const text = await textAfter([
      { outcome: 'delivered', reason: '', durationMs: 300 },
      { outcome: 'delivered', reason: '', durationMs: 200 },
      { outcome: 'failed', reason: 'timeout', durationMs: 15_000 },
    ], true)
    expect(text).toContain('webhook_attempts_total{outcome="delivered",reason=""} 2')
    expect(text).toContain('webhook_attempts_total{outcome="failed",reason="timeout"} 1')
    expect(text).toContain('webhook_attempt_seconds_sum{outcome="delivered"} 0.5')
    expect(text).toContain('webhook_attempt_seconds_count{outcome="failed"} 1')
  })

  it('have no duration for attempts that were not sent', async () => {
    const text = await textAfter([
      { outcome: 'discarded', reason: 'erased', durationMs: 0 },
      { outcome: 'failed', reason: 'internal', durationMs: 0 },
    ], true)
    expect(text).toContain('webhook_attempts_total{outcome="discarded",reason="erased"} 1')
    expect(text).not.toContain('webhook_attempt_seconds_count')
  })

  it('count attempts that are throttled', async () => {
    const metrics = createMetrics()
    const throttled: unknown[] = []
    const deliveries = {
      throttle: async (...args: readonly unknown[]) => { throttled.push(args) },
    } as never
    await countAttempts({ metrics, deliveries }).throttle(claim, 20)
    expect(throttled).toEqual([[claim, 20]])
    expect(await metrics.text()).toContain('webhook_attempts_throttled_total 1')
  })

  it('leave out attempts whose lease has expired', async () => {
    const text = await textAfter([{ outcome: 'delivered', reason: '', durationMs: 10 }], false)
    expect(text).not.toContain('webhook_attempts_total{')
    expect(text).not.toContain('webhook_attempt_seconds_count')
  })
})

describe('the gauge webhook_queue_depth', () => {
  it('follows the queue depth, and keeps its value while Redis is unavailable', async () => {
    const metrics = createMetrics()
    const warned: string[] = []
    const counts: (() => number)[] = [() => 3, () => 5, () => { throw new Error('no store') }]
    const times: number[] = []
    const dueBy = async (nowMs: number) => {
      times.push(nowMs)
      return (counts.shift() ?? (() => 5))()
    }
    const queueDepth = startQueueDepth({
      metrics,
      deliveries: { dueBy } as unknown as Deliveries,
      clock: { now: () => 77 },
      log: { warn: (_: object, text: string) => { warned.push(text) } } as never,
      measureEveryMs: 1,
    })
    await eventually(() => expect(warned).toHaveLength(1))
    expect(await metrics.text()).toContain('webhook_queue_depth 5')
    expect(new Set(times)).toEqual(new Set([77]))
    await queueDepth.stop()
  })
})
