import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { createMetrics } from '../../../../services/runtime/platform/metrics.ts'
import { startPauseGate } from '../../../../services/runtime/engine/pause.ts'

beforeEach(() => { vi.useFakeTimers() })
afterEach(() => { vi.useRealTimers() })

const never = new AbortController().signal

/** A pause gate of `verify` on the part of Redis that it uses. */
function scene ({ isAway = false } = {}) {
  const state = { paused: false, isAway }
  const logged: string[] = []
  const metrics = createMetrics()
  const record = (...[first, second]: unknown[]) => { logged.push(String(second ?? first)) }
  const gate = startPauseGate('verify', {
    redis: {
      hexists: async (key: string, field: string) => {
        if (state.isAway) throw Object.assign(new Error('connect'), { code: 'ECONNREFUSED' })
        return Number(key === 'ops:paused' && field === 'verify' && state.paused)
      },
    } as Parameters<typeof startPauseGate>[1]['redis'],
    log: { info: record, warn: record } as unknown as Parameters<typeof startPauseGate>[1]['log'],
    metrics,
  })
  const metric = async () =>
    /^stage_paused\{stage="verify"\} (\d)$/m.exec(await metrics.text())?.[1]
  return { state, logged, gate, metric }
}

describe('the pause gate of a stage', () => {
  it('follows a pause and its end within two seconds, and logs both', async () => {
    const { state, logged, gate, metric } = scene()
    await vi.advanceTimersByTimeAsync(0)
    expect([gate.isOpen(), await metric(), logged]).toEqual([true, '0', []])
    state.paused = true
    await vi.advanceTimersByTimeAsync(2_000)
    expect([gate.isOpen(), await metric()]).toEqual([false, '1'])
    const opened: string[] = []
    for (const name of ['a', 'b']) gate.opened(never).then(() => opened.push(name)).catch(() => {})
    await vi.advanceTimersByTimeAsync(5_000)
    expect(opened).toEqual([])
    state.paused = false
    await vi.advanceTimersByTimeAsync(2_000)
    expect([opened, gate.isOpen(), await metric()]).toEqual([['a', 'b'], true, '0'])
    expect(logged).toEqual(['stage paused', 'stage resumed'])
    await gate.stop()
  })

  it('is closed until it is known whether the stage is paused', async () => {
    const { state, gate, metric } = scene({ isAway: true })
    await vi.advanceTimersByTimeAsync(10_000)
    expect([gate.isOpen(), await metric()]).toEqual([false, '0'])
    state.isAway = false
    await vi.advanceTimersByTimeAsync(2_000)
    expect(gate.isOpen()).toBe(true)
    await gate.stop()
  })

  it.each([true, false])('keeps its last state (%s) while Redis is unavailable', async paused => {
    const { state, logged, gate } = scene()
    state.paused = paused
    await vi.advanceTimersByTimeAsync(2_000)
    state.isAway = true
    state.paused = !paused
    await vi.advanceTimersByTimeAsync(60_000)
    expect(gate.isOpen()).toBe(!paused)
    expect(logged.filter(line => line.includes('failed to read'))).toHaveLength(1)
    state.isAway = false
    await vi.advanceTimersByTimeAsync(2_000)
    expect(gate.isOpen()).toBe(paused)
    await gate.stop()
  })

  it('rejects a caller whose signal is aborted', async () => {
    const { state, gate } = scene()
    state.paused = true
    await vi.advanceTimersByTimeAsync(2_000)
    const lost = new AbortController()
    const waiting = gate.opened(lost.signal)
    lost.abort()
    await expect(waiting).rejects.toThrow('aborted')
    await gate.stop()
  })
})
