import { describe, expect, it } from 'vitest'
import { countNotes, startCountingDue } from '../../../services/deliver/meters.ts'
import type { Claim, Deliveries, Note } from '../../../services/jobs/deliveries.ts'
import { createMetrics } from '../../../services/lib/metrics.ts'
import { eventually } from '../../support/eventually.ts'

const claim = { event: 'evt_1' } as Claim
const noteOf = (attempt: object) => ({ state: 'delivered', pace: 'quick', attempt }) as Note

async function textAfter (notes: readonly object[], isNoted: boolean): Promise<string> {
  const metrics = createMetrics()
  const { note } = countNotes({ metrics, deliveries: { note: async () => isNoted } as never })
  for (const attempt of notes) expect(await note(claim, noteOf(attempt))).toBe(isNoted)
  return await metrics.text()
}

describe('attempts', () => {
  it('are counted by outcome and reason, and timed', async () => {
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

  it('that were not made have no duration', async () => {
    const text = await textAfter([
      { outcome: 'discarded', reason: 'erased', durationMs: 0 },
      { outcome: 'failed', reason: 'internal', durationMs: 0 },
    ], true)
    expect(text).toContain('webhook_attempts_total{outcome="discarded",reason="erased"} 1')
    expect(text).not.toContain('webhook_attempt_seconds_count')
  })

  it('whose lease had gone to somebody else are not counted', async () => {
    const text = await textAfter([{ outcome: 'delivered', reason: '', durationMs: 10 }], false)
    expect(text).not.toContain('webhook_attempts_total{')
    expect(text).not.toContain('webhook_attempt_seconds_count')
  })
})

describe('the gauge of webhooks that are due', () => {
  it('follows what is due, and keeps the last count while it cannot be had', async () => {
    const metrics = createMetrics()
    const warned: string[] = []
    const counts: (() => number)[] = [() => 3, () => 5, () => { throw new Error('no store') }]
    const asked: number[] = []
    const dueBy = async (nowMs: number) => {
      asked.push(nowMs)
      return (counts.shift() ?? (() => 5))()
    }
    const counting = startCountingDue({
      metrics,
      deliveries: { dueBy } as unknown as Deliveries,
      clock: { now: () => 77 },
      log: { warn: (_: object, text: string) => { warned.push(text) } } as never,
      countDueEveryMs: 1,
    })
    await eventually(() => expect(warned).toHaveLength(1))
    expect(await metrics.text()).toContain('webhooks_due 5')
    expect(new Set(asked)).toEqual(new Set([77]))
    await counting.stop()
  })
})
