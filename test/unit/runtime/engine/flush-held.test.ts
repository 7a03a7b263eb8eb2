import { afterEach, describe, expect, it, vi } from 'vitest'
import { FatalError, InfrastructureError } from '../../../../services/runtime/platform/errors.ts'
import { subscriptionsOf } from '../../../../services/runtime/platform/topics.ts'
import { eventually } from '../../../support/eventually.ts'
import { benchOf, decisionFor, echoStage, rawMessage, textOf, type Read } from './engine-bench.ts'

afterEach(() => { vi.useRealTimers() })

/** A stage that holds all it gets until `release` is allowed to give it. */
function holding (more: Parameters<typeof decisionFor>[2] = {}) {
  const held: Read[] = []
  const calls: object[] = []
  const state = { isFree: false, fault: undefined as Error | undefined }
  const stage = echoStage({
    decide: async messages => { held.push(...messages); return [] },
    flushHeld: async source => {
      calls.push(source)
      if (state.fault !== undefined) throw state.fault
      if (!state.isFree) return []
      return held.splice(0).map(message => decisionFor([message], textOf(message), more))
    },
    forget: () => { held.length = 0 },
  })
  return { stage, state, calls }
}

describe('held messages that need no further message', () => {
  it('are flushed and committed without new messages', async () => {
    const { stage, state, calls } = holding()
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0), rawMessage(1)])
    await bench.running.flushHeld()
    expect(bench.effects).toEqual([])
    state.isFree = true
    await bench.running.flushHeld()
    expect(bench.effects).toEqual(['rows.normalized m0', 'rows.normalized m1', 'commit 2'])
    expect(calls).toContainEqual({ topic: 'rows.submitted.small', partition: 0 })
  })

  it('are not shared by subscriptions: a new generation of one group would drop those of others',
    async () => {
      const { stage } = holding()
      const subscriptions = subscriptionsOf('normalize')
      expect(subscriptions).toHaveLength(2)
      await expect(benchOf(stage, { subscriptions }))
        .rejects.toThrow('the stage normalize holds messages, but its 2 subscriptions share it')
    })

  it('are flushed periodically until the stage stops', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { stage, state, calls } = holding()
    const bench = await benchOf(stage, { flushHeldMs: 10 })
    await bench.deliver([rawMessage(0)])
    await vi.advanceTimersByTimeAsync(20)
    expect([calls.length, bench.effects]).toEqual([2, []])
    state.isFree = true
    await vi.advanceTimersByTimeAsync(10)
    await eventually(() => expect(bench.effects).toContain('commit 1'))
    await bench.running.stop()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('are flushed once more at the stop, if the stage wants it, and not waited for without end',
    async () => {
      for (const flushOnStop of [true, false]) {
        const { stage, state } = holding()
        const bench = await benchOf(stage, { flushOnStop })
        await bench.deliver([rawMessage(0)])
        state.isFree = true
        await bench.running.stop()
        expect(bench.effects).toEqual(
          flushOnStop ? ['rows.normalized m0', 'commit 1', 'stopped'] : ['stopped'])
      }
      vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
      const bench = await benchOf(
        echoStage({ decide: async () => [], flushHeld: () => new Promise(() => {}) }),
        { flushOnStop: true })
      await bench.deliver([rawMessage(0)])
      const stopped = bench.running.stop()
      await vi.advanceTimersByTimeAsync(1_000)
      await stopped
    })

  it('are dead letters if their decision always fails', async () => {
    const { stage, state } = holding({ afterProduced: async () => { throw new Error('bug') } })
    const bench = await benchOf(stage, { deadLimit: 3 })
    await bench.deliver([rawMessage(0), rawMessage(1)])
    state.isFree = true
    await bench.running.flushHeld()
    expect(bench.letters.map(({ headers }) => headers['dead_reason']))
      .toEqual(['flush failed', 'flush failed'])
    expect(bench.effects.at(-1)).toBe('commit 2')
  })

  it('stay held while the stage cannot decide them, and are retried', async () => {
    const { stage, state } = holding()
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0)])
    Object.assign(state, { isFree: true, fault: new TypeError('bug') })
    await bench.running.flushHeld()
    expect(bench.effects).toEqual([])
    state.fault = undefined
    await bench.running.flushHeld()
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
  })

  it('wait for infrastructure, and stop the process for a fatal error', async () => {
    const { stage, state } = holding()
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0)])
    state.isFree = true
    bench.faults.push(new InfrastructureError('no broker'))
    await bench.running.flushHeld()
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
    state.fault = new FatalError('RESULTS_ROOT_KEYS lacks a key')
    await expect(bench.running.flushHeld()).rejects.toThrow(FatalError)
  })

  it('of one partition do not wait for those of another', async () => {
    const gate = Promise.withResolvers<void>()
    const calls: number[] = []
    const bench = await benchOf(echoStage({
      flushHeld: async ({ partition }) => {
        calls.push(partition)
        if (partition === 0) await gate.promise
        return []
      },
    }))
    await bench.deliver([rawMessage(0)])
    await bench.deliver([rawMessage(0)], { partition: 1 })
    const blocked = bench.running.flushHeld()
    await new Promise(setImmediate)
    await bench.running.flushHeld()
    expect(calls).toEqual([0, 1, 1])
    gate.resolve()
    await blocked
    await bench.running.flushHeld()
    expect(calls.toSorted()).toEqual([0, 0, 1, 1, 1])
  })

  it('of an old generation are left alone', async () => {
    const { stage, state, calls } = holding()
    const bench = await benchOf(stage)
    const life = new AbortController()
    await bench.deliver([rawMessage(0)], { signal: life.signal })
    state.isFree = true
    life.abort()
    await bench.running.flushHeld()
    bench.assigned()
    await bench.running.flushHeld()
    expect([calls, bench.effects]).toEqual([[], []])
  })
})
