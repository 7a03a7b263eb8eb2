import { afterEach, describe, expect, it, vi } from 'vitest'
import { FatalError, InfrastructureError } from '../../../services/platform/errors.ts'
import { createTurns, every } from '../../../services/engine/flush-held.ts'
import { eventually } from '../../support/eventually.ts'
import { benchOf, decisionFor, echoStage, rawMessage, textOf, type Read } from './engine-bench.ts'

afterEach(() => { vi.useRealTimers() })

/** A stage that holds all it gets until `release` is allowed to give it. */
function holding (more: Parameters<typeof decisionFor>[2] = {}) {
  const held: Read[] = []
  const asked: object[] = []
  const state = { isFree: false, fault: undefined as Error | undefined }
  const stage = echoStage({
    decide: async messages => { held.push(...messages); return [] },
    release: async place => {
      asked.push(place)
      if (state.fault !== undefined) throw state.fault
      if (!state.isFree) return []
      return held.splice(0).map(message => decisionFor([message], textOf(message), more))
    },
    forget: () => { held.length = 0 },
  })
  return { stage, state, asked }
}

describe('held messages that wait for nothing more', () => {
  it('are let go without new ones, and committed', async () => {
    const { stage, state, asked } = holding()
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0), rawMessage(1)])
    await bench.running.release()
    expect(bench.effects).toEqual([])
    state.isFree = true
    await bench.running.release()
    expect(bench.effects).toEqual(['rows.normalized m0', 'rows.normalized m1', 'commit 2'])
    expect(asked).toContainEqual({ topic: 'rows.submitted.small', partition: 0 })
  })

  it('are looked for every so often, until the stage stops', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { stage, state, asked } = holding()
    const bench = await benchOf(stage, { releaseEveryMs: 10 })
    await bench.deliver([rawMessage(0)])
    await vi.advanceTimersByTimeAsync(20)
    expect([asked.length, bench.effects]).toEqual([2, []])
    state.isFree = true
    await vi.advanceTimersByTimeAsync(10)
    await eventually(() => expect(bench.effects).toContain('commit 1'))
    await bench.running.stop()
    expect(vi.getTimerCount()).toBe(0)
  })

  it('end as dead letters when what follows from them always fails', async () => {
    const { stage, state } = holding({ afterProduced: async () => { throw new Error('bug') } })
    const bench = await benchOf(stage, { deadLimit: 3 })
    await bench.deliver([rawMessage(0), rawMessage(1)])
    state.isFree = true
    await bench.running.release()
    expect(bench.letters.map(({ headers }) => headers['dead_reason']))
      .toEqual(['release failed', 'release failed'])
    expect(bench.effects.at(-1)).toBe('commit 2')
  })

  it('stay held while they cannot be judged, and are asked about again', async () => {
    const { stage, state } = holding()
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0)])
    Object.assign(state, { isFree: true, fault: new TypeError('bug') })
    await bench.running.release()
    expect(bench.effects).toEqual([])
    state.fault = undefined
    await bench.running.release()
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
  })

  it('wait for infrastructure, and end the process for what cannot heal', async () => {
    const { stage, state } = holding()
    const bench = await benchOf(stage)
    await bench.deliver([rawMessage(0)])
    state.isFree = true
    bench.faults.push(new InfrastructureError('no broker'))
    await bench.running.release()
    expect(bench.effects).toEqual(['rows.normalized m0', 'commit 1'])
    state.fault = new FatalError('KEY_RING lacks a key')
    await expect(bench.running.release()).rejects.toThrow(FatalError)
  })

  it('of one partition do not wait for those of another', async () => {
    const gate = Promise.withResolvers<void>()
    const asked: number[] = []
    const bench = await benchOf(echoStage({
      release: async ({ partition }) => {
        asked.push(partition)
        if (partition === 0) await gate.promise
        return []
      },
    }))
    await bench.deliver([rawMessage(0)])
    await bench.deliver([rawMessage(0)], { partition: 1 })
    const blocked = bench.running.release()
    await new Promise(setImmediate)
    await bench.running.release()
    expect(asked).toEqual([0, 1, 1])
    gate.resolve()
    await blocked
    await bench.running.release()
    expect(asked.toSorted()).toEqual([0, 0, 1, 1, 1])
  })

  it('of an old generation are left to the new one', async () => {
    const { stage, state, asked } = holding()
    const bench = await benchOf(stage)
    const life = new AbortController()
    await bench.deliver([rawMessage(0)], { signal: life.signal })
    state.isFree = true
    life.abort()
    await bench.running.release()
    bench.assigned()
    await bench.running.release()
    expect([asked, bench.effects]).toEqual([[], []])
  })
})

describe('turns', () => {
  it('run actions of one name in order, others beside them, also after a failure', async () => {
    const { take } = createTurns()
    const done: string[] = []
    const gate = Promise.withResolvers<void>()
    const first = take('a', async () => { await gate.promise; done.push('a1'); throw new Error() })
    const second = take('a', async () => { done.push('a2') })
    await take('b', async () => { done.push('b1') })
    gate.resolve()
    await expect(first).rejects.toThrow()
    await second
    expect(done).toEqual(['b1', 'a1', 'a2'])
  })
})

describe('every', () => {
  it('waits for all that runs when it is stopped, and never begins with a pause of 0', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const gate = Promise.withResolvers<void>()
    const runs = { begun: 0, ended: 0 }
    const repeated = every(1, async () => {
      runs.begun += 1
      await gate.promise
      runs.ended += 1
    })
    const never = every(0, async () => { runs.begun += 100 })
    vi.advanceTimersByTime(3)
    const stopping = Promise.all([repeated.stop(), never.stop()])
    vi.advanceTimersByTime(3)
    gate.resolve()
    await stopping
    expect(runs).toEqual({ begun: 3, ended: 3 })
  })

  it('stops although what runs never ends', async () => {
    let runs = 0
    const repeated = every(1, () => { runs += 1; return new Promise(() => {}) }, 5)
    await eventually(() => expect(runs).toBeGreaterThan(0))
    await repeated.stop()
  })
})
