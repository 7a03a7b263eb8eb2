import { describe, expect, it, vi } from 'vitest'
import { startWorkers, type WorkersParts } from '../../../services/deliver/workers.ts'
import type { Claim, Pace } from '../../../services/jobs/deliveries.ts'

const claimOf = (event: string): Claim => ({
  event, tenant: 't', job: 'j', type: 'job.completed', attempt: 1, once: false, token: 'k',
})

function scene (more: Partial<WorkersParts> = {}) {
  const due: Record<Pace, string[]> = { quick: [], slow: [] }
  const warned: unknown[] = []
  const begun: string[] = []
  const ends = new Map<string, () => void>()
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
    ...more,
  })
  const endAll = () => { for (const end of ends.values()) end() }
  return { workers, due, warned, begun, ends, endAll }
}

describe('workers', () => {
  it('begin no more attempts than there are places, and go on when one is free', async () => {
    const { workers, due, begun, ends, endAll } = scene({ slowAfterMs: 60_000 })
    due.quick.push('a', 'b', 'c')
    await vi.waitFor(() => expect(begun).toEqual(['a', 'b']))
    expect(due.quick).toEqual(['c'])
    ends.get('a')?.()
    await vi.waitFor(() => expect(begun).toEqual(['a', 'b', 'c']))
    endAll()
    await workers.stop()
  })

  it('keep the places of the quick for attempts that are, as long as there is room', async () => {
    const { workers, due, begun, endAll } = scene()
    due.quick.push('hangs 1', 'hangs 2', 'quick 1', 'quick 2', 'waits')
    await vi.waitFor(() => expect(begun).toEqual(['hangs 1', 'hangs 2', 'quick 1', 'quick 2']))
    due.slow.push('slow')
    await new Promise(resolve => setTimeout(resolve, 60))
    expect(begun).toHaveLength(4)
    expect(due).toEqual({ quick: ['waits'], slow: ['slow'] })
    endAll()
    await vi.waitFor(() => expect(begun.slice(4).sort()).toEqual(['slow', 'waits']))
    endAll()
    await workers.stop()
  })

  it('stop when the attempts under way have ended, and begin no more', async () => {
    const { workers, due, begun, endAll } = scene()
    due.quick.push('a')
    await vi.waitFor(() => expect(begun).toEqual(['a']))
    let stopped = false
    const stopping = workers.stop().then(() => { stopped = true })
    due.quick.push('b')
    await new Promise(resolve => setTimeout(resolve, 20))
    expect([stopped, begun]).toEqual([false, ['a']])
    endAll()
    await stopping
  })

  it('begin no attempt while they are paused, and stay ready', async () => {
    let isOpen = false
    const gate = { isOpen: () => isOpen, opened: async () => {} }
    const { workers, due, begun, endAll } = scene({ gate })
    due.quick.push('a')
    due.slow.push('b')
    workers.wake()
    await new Promise(resolve => setTimeout(resolve, 30))
    expect([begun, due, workers.ready()]).toEqual([[], { quick: ['a'], slow: ['b'] }, true])
    isOpen = true
    await vi.waitFor(() => expect(begun).toEqual(['a', 'b']))
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
    await vi.waitFor(() => expect(workers.ready()).toBe(false))
    expect(warned.length).toBeGreaterThan(0)
    broken = false
    await vi.waitFor(() => expect(workers.ready()).toBe(true))
    await workers.stop()
  })

  it('outlive an attempt that could not be noted', async () => {
    const attempt = async ({ event }: Claim) => { if (event === 'a') throw new Error('broken') }
    const { workers, due, warned } = scene({ attempt })
    due.quick.push('a')
    await vi.waitFor(() => expect(warned).toHaveLength(1))
    due.quick.push('b')
    workers.wake()
    await vi.waitFor(() => expect(due.quick).toEqual([]))
    await workers.stop()
  })
})
