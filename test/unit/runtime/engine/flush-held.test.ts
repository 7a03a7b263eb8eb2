import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { eventually } from '../../../support/eventually.ts'
import { benchOf, decisionFor, echoStage, rawMessage, textOf, type Read } from './engine-bench.ts'

afterEach(() => { vi.useRealTimers() })

/** A stage that holds two messages until `release` allows it to give them. */
async function holding (
  deps: Parameters<typeof benchOf>[1] = {}, more: Parameters<typeof decisionFor>[2] = {}
) {
  const held: Read[] = []
  const state = { isFree: false, fault: undefined as Error | undefined, calls: [] as object[] }
  const bench = await benchOf(echoStage({
    decide: async messages => { held.push(...messages); return [] },
    flushHeld: async source => {
      state.calls.push(source)
      if (state.fault !== undefined) throw state.fault
      if (!state.isFree) return []
      return held.splice(0).map(message => decisionFor([message], textOf(message), more))
    },
    forget: () => { held.length = 0 },
  }), deps)
  const life = new AbortController()
  await bench.deliver([rawMessage(0), rawMessage(1)], { signal: life.signal })
  return { state, bench, life, effects: bench.effects, flush: () => bench.running.flushHeld() }
}

const FLUSHED = ['rows.normalized m0', 'rows.normalized m1', 'commit 2']

describe('held messages that need no further message', () => {
  it('are flushed and committed once the stage decides them, without new messages', async () => {
    const { state, effects, flush } = await holding()
    await flush()
    Object.assign(state, { isFree: true, fault: new TypeError('bug') })
    await flush()
    expect(effects).toEqual([])
    state.fault = undefined
    await flush()
    expect(effects).toEqual(FLUSHED)
    expect(state.calls).toContainEqual({ topic: 'rows.submitted.small', partition: 0 })
  })

  it('are flushed periodically until the stage stops', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { state, bench, effects } = await holding({ flushHeldMs: 10 })
    await vi.advanceTimersByTimeAsync(20)
    expect([state.calls.length, effects]).toEqual([2, []])
    state.isFree = true
    await vi.advanceTimersByTimeAsync(10)
    await eventually(() => expect(effects).toContain('commit 2'))
    // At rest no timer wakes the process.
    await vi.advanceTimersByTimeAsync(10)
    expect([state.calls.length, vi.getTimerCount()]).toEqual([3, 0])
    state.isFree = false
    await bench.deliver([rawMessage(2)])
    await bench.deliver([rawMessage(3)])
    await vi.advanceTimersByTimeAsync(10)
    expect([state.calls.length, vi.getTimerCount()]).toEqual([4, 1])
    await bench.running.stop()
    await bench.deliver([rawMessage(4)])
    expect(vi.getTimerCount()).toBe(0)
  })

  it.each([[true, 0], [false, 8_000]])(
    'hold back the stop while a flush is running (it ends: %s), at most 8 s', async (ends, ms) => {
      vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'setTimeout', 'clearTimeout'] })
      const flush = Promise.withResolvers<[]>()
      const bench = await benchOf(
        echoStage({ decide: async () => [], flushHeld: () => flush.promise }), { flushHeldMs: 10 })
      await bench.deliver([rawMessage(0)])
      await vi.advanceTimersByTimeAsync(10)
      let isStopped = false
      const stopped = bench.running.stop().then(() => { isStopped = true })
      await vi.advanceTimersByTimeAsync(7_999)
      expect(isStopped).toBe(false)
      if (ends) flush.resolve([])
      else await vi.advanceTimersByTimeAsync(ms - 7_999)
      await stopped
    })

  it.each([[true, [...FLUSHED, 'stopped']], [false, ['stopped']]])(
    'are flushed once more at the stop, if the stage wants it (%s)', async (flushOnStop, all) => {
      const { state, bench, effects } = await holding({ flushOnStop })
      state.isFree = true
      await bench.running.stop()
      expect(effects).toEqual(all)
    })

  it('are dead letters if their decision always fails', async () => {
    const { state, bench, effects, flush } = await holding(
      { deadLimit: 3 }, { afterProduced: async () => { throw new Error('bug') } })
    state.isFree = true
    await flush()
    expect(bench.letters.map(({ headers }) => headers['dead_reason']))
      .toEqual(['flush failed', 'flush failed'])
    expect(effects.at(-1)).toBe('commit 2')
  })

  it('wait for infrastructure, and stop the process for a fatal error', async () => {
    const { state, bench, effects, flush } = await holding()
    state.isFree = true
    bench.faults.push(new InfrastructureError('no broker'))
    await flush()
    expect(effects).toEqual(FLUSHED)
    await bench.deliver([rawMessage(2)])
    state.fault = new FatalError('RESULTS_ROOT_KEYS lacks a key')
    await expect(flush()).rejects.toThrow(FatalError)
  })

  it('of one partition do not wait for those of another', async () => {
    const gate = Promise.withResolvers<void>()
    const calls: number[] = []
    const bench = await benchOf(echoStage({
      decide: async () => [],
      flushHeld: async ({ partition }) => {
        calls.push(partition)
        if (partition === 0) await gate.promise
        return []
      },
    }))
    await bench.deliver([rawMessage(0)])
    await bench.deliver([rawMessage(0)], { partition: 1 })
    const blocked = bench.running.flushHeld()
    await turn()
    await bench.running.flushHeld()
    expect(calls).toEqual([0, 1, 1])
    gate.resolve()
    await blocked
    await bench.running.flushHeld()
    expect(calls.toSorted()).toEqual([0, 0, 1, 1, 1])
  })

  it('of an old generation are left alone', async () => {
    const { state, bench, life, effects, flush } = await holding()
    state.isFree = true
    life.abort()
    await flush()
    bench.assigned()
    await flush()
    expect([state.calls, effects]).toEqual([[], []])
  })
})
