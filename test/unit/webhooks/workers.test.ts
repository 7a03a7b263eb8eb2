import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startWorkers, type WorkersDeps } from '../../../services/webhooks/workers.ts'
import type { DeliveryClaim, PriorityClass } from '../../../services/webhooks/deliveries.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(() => { vi.useRealTimers() })

const claimOf = (event: string): DeliveryClaim => ({
  event, tenant: 't', job: 'j', type: 'job.completed', attempt: 1, once: false, token: 'k',
})

function scene (more: Partial<WorkersDeps> = {}) {
  const due: Record<PriorityClass, string[]> = { quick: [], slow: [] }
  const warned: unknown[] = []
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const gate = { polls: 0, isOpen: true }
  const workers = startWorkers({
    deliveries: {
      claim: async ({ priority, limit }) => due[priority].splice(0, limit).map(claimOf),
    },
    attempt: async ({ event }) => {
      started.push(event)
      await new Promise<void>(resolve => ends.set(event, resolve))
    },
    log: { warn: (fields: unknown) => { warned.push(fields) } } as WorkersDeps['log'],
    slots: { quick: 2, slow: 2 },
    tenantSlots: 10,
    leaseMs: 1_000,
    pollMs: 5,
    slowAfterMs: 20,
    gate: {
      isOpen: () => {
        gate.polls += 1
        return gate.isOpen
      },
      opened: async () => {},
    },
    ...more,
  })
  const endAll = () => { for (const end of ends.values()) end() }
  /** Resolves after a few more polls of the workers. */
  const polled = async () => {
    const before = gate.polls
    await eventually(() => expect(gate.polls).toBeGreaterThan(before + 3))
  }
  return { workers, due, warned, started, ends, endAll, gate, polled }
}

describe('webhook workers', () => {
  it('start no more attempts than slots, and continue when a slot is free', async () => {
    const { workers, due, started, ends, endAll } = scene({ slowAfterMs: 60_000 })
    due.quick.push('a', 'b', 'c')
    await eventually(() => expect(started).toEqual(['a', 'b']))
    expect(due.quick).toEqual(['c'])
    ends.get('a')?.()
    await eventually(() => expect(started).toEqual(['a', 'b', 'c']))
    endAll()
    await workers.stop()
  })

  it('move long attempts from quick to slow slots while slow slots are free', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { workers, due, started, endAll, polled } = scene()
    due.quick.push('hangs 1', 'hangs 2', 'quick 1', 'quick 2', 'waits')
    await eventually(() => expect(started).toEqual(['hangs 1', 'hangs 2', 'quick 1', 'quick 2']))
    due.slow.push('slow')
    vi.advanceTimersByTime(60)
    await polled()
    expect(started).toHaveLength(4)
    expect(due).toEqual({ quick: ['waits'], slow: ['slow'] })
    endAll()
    await eventually(() => expect(started.slice(4).sort()).toEqual(['slow', 'waits']))
    endAll()
    await workers.stop()
  })

  it('stop after the running attempts have ended, and start no more', async () => {
    const { workers, due, started, endAll } = scene()
    due.quick.push('a')
    await eventually(() => expect(started).toEqual(['a']))
    let stopped = false
    const stopping = workers.stop().then(() => { stopped = true })
    due.quick.push('b')
    await turn()
    await turn()
    expect([stopped, started]).toEqual([false, ['a']])
    endAll()
    await stopping
  })

  it('start no attempt while paused, and stay ready', async () => {
    const { workers, due, started, endAll, gate, polled } = scene()
    gate.isOpen = false
    due.quick.push('a')
    due.slow.push('b')
    workers.wake()
    await polled()
    expect([started, due, workers.ready()]).toEqual([[], { quick: ['a'], slow: ['b'] }, true])
    gate.isOpen = true
    await eventually(() => expect(started).toEqual(['a', 'b']))
    endAll()
    await workers.stop()
  })

  it('are not ready while claims fail, and recover', async () => {
    let broken = true
    const claim = async () => {
      if (broken) throw new Error('broken')
      return []
    }
    const { workers, warned } = scene({ deliveries: { claim } })
    await eventually(() => expect(workers.ready()).toBe(false))
    expect(warned.length).toBeGreaterThan(0)
    broken = false
    await eventually(() => expect(workers.ready()).toBe(true))
    await workers.stop()
  })

  it('continue after an attempt that could not be recorded', async () => {
    const attempt = async ({ event }: DeliveryClaim) => {
      if (event === 'a') throw new Error('broken')
    }
    const { workers, due, warned } = scene({ attempt })
    due.quick.push('a')
    await eventually(() => expect(warned).toHaveLength(1))
    due.quick.push('b')
    workers.wake()
    await eventually(() => expect(due.quick).toEqual([]))
    await workers.stop()
  })
})
