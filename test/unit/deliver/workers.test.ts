import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { startWorkers, type WorkersParts } from '../../../services/deliver/workers.ts'
import type { Claim, Pace } from '../../../services/jobs/deliveries.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(() => { vi.useRealTimers() })

const claimOf = (event: string): Claim => ({
  event, tenant: 't', job: 'j', type: 'job.completed', attempt: 1, once: false, token: 'k',
})

function scene (more: Partial<WorkersParts> = {}) {
  const due: Record<Pace, string[]> = { quick: [], slow: [] }
  const warned: unknown[] = []
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const gate = { looks: 0, isOpen: true }
  const workers = startWorkers({
    deliveries: {
      claim: async ({ pace, most }) => due[pace].splice(0, most).map(claimOf),
    },
    attempt: async ({ event }) => {
      begun.push(event)
      await new Promise<void>(resolve => ends.set(event, resolve))
    },
    log: { warn: (fields: unknown) => { warned.push(fields) } } as WorkersParts['log'],
    slots: { quick: 2, slow: 2 },
    tenantSlots: 10,
    leaseMs: 1_000,
    pollMs: 5,
    slowAfterMs: 20,
    gate: {
      isOpen: () => {
        gate.looks += 1
        return gate.isOpen
      },
      opened: async () => {},
    },
    ...more,
  })
  const endAll = () => { for (const end of ends.values()) end() }
  /** Resolves when the workers have looked for what is due a few times more. */
  const looked = async () => {
    const before = gate.looks
    await eventually(() => expect(gate.looks).toBeGreaterThan(before + 3))
  }
  return { workers, due, warned, begun, ends, endAll, gate, looked }
}

describe('workers', () => {
  it('begin no more attempts than there are places, and go on when one is free', async () => {
    const { workers, due, begun, ends, endAll } = scene({ slowAfterMs: 60_000 })
    due.quick.push('a', 'b', 'c')
    await eventually(() => expect(begun).toEqual(['a', 'b']))
    expect(due.quick).toEqual(['c'])
    ends.get('a')?.()
    await eventually(() => expect(begun).toEqual(['a', 'b', 'c']))
    endAll()
    await workers.stop()
  })

  it('keep the places of the quick for attempts that are, as long as there is room', async () => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
    const { workers, due, begun, endAll, looked } = scene()
    due.quick.push('hangs 1', 'hangs 2', 'quick 1', 'quick 2', 'waits')
    await eventually(() => expect(begun).toEqual(['hangs 1', 'hangs 2', 'quick 1', 'quick 2']))
    due.slow.push('slow')
    vi.advanceTimersByTime(60)
    await looked()
    expect(begun).toHaveLength(4)
    expect(due).toEqual({ quick: ['waits'], slow: ['slow'] })
    endAll()
    await eventually(() => expect(begun.slice(4).sort()).toEqual(['slow', 'waits']))
    endAll()
    await workers.stop()
  })

  it('stop when the attempts under way have ended, and begin no more', async () => {
    const { workers, due, begun, endAll } = scene()
    due.quick.push('a')
    await eventually(() => expect(begun).toEqual(['a']))
    let stopped = false
    const stopping = workers.stop().then(() => { stopped = true })
    due.quick.push('b')
    await turn()
    await turn()
    expect([stopped, begun]).toEqual([false, ['a']])
    endAll()
    await stopping
  })

  it('begin no attempt while they are paused, and stay ready', async () => {
    const { workers, due, begun, endAll, gate, looked } = scene()
    gate.isOpen = false
    due.quick.push('a')
    due.slow.push('b')
    workers.wake()
    await looked()
    expect([begun, due, workers.ready()]).toEqual([[], { quick: ['a'], slow: ['b'] }, true])
    gate.isOpen = true
    await eventually(() => expect(begun).toEqual(['a', 'b']))
    endAll()
    await workers.stop()
  })

  it('are not ready while claims can not be read, and heal', async () => {
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

  it('outlive an attempt that could not be noted', async () => {
    const attempt = async ({ event }: Claim) => { if (event === 'a') throw new Error('broken') }
    const { workers, due, warned } = scene({ attempt })
    due.quick.push('a')
    await eventually(() => expect(warned).toHaveLength(1))
    due.quick.push('b')
    workers.wake()
    await eventually(() => expect(due.quick).toEqual([]))
    await workers.stop()
  })
})
