import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { Workers, type WorkersDeps } from '../../../services/deliver/workers.ts'
import type {
  Attempt, Deliveries, DeliveryClaim, PriorityClass,
} from '../../../services/webhooks/deliveries.ts'
import { RefusedRowsError } from '../../../services/runtime/platform/clickhouse.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { eventually } from '../../support/eventually.ts'

afterEach(() => { vi.useRealTimers() })

/** An attempt ends without a request: the event is obsolete. */
const claimOf = (job: string): DeliveryClaim => ({
  delivery: `evt_${job}`,
  tenant: 't',
  job,
  type: 'job.progress',
  attempt: 1,
  once: false,
  token: 'k',
})

/** There is nothing to measure and to ship. */
const IDLE = { dueBy: async () => 0, unshipped: async () => new Map(), forget: async () => {} }

type Setup = Omit<Partial<WorkersDeps>, 'deliveries'> &
  { readonly deliveries?: Partial<Deliveries> }

function scene ({ deliveries, ...more }: Setup = {}) {
  const due: Record<PriorityClass, string[]> = { quick: [], slow: [] }
  const warned: unknown[] = []
  const started: string[] = []
  const ends = new Map<string, () => void>()
  const metrics = createMetrics()
  const gate = { polls: 0, isOpen: true }
  const workers = new Workers({
    deliveries: {
      claim: async ({ priority, limit }: { priority: PriorityClass, limit: number }) =>
        due[priority].splice(0, limit).map(claimOf),
      drop: async () => {},
      ...IDLE,
      ...deliveries,
    },
    history: { append: async () => {} },
    findJob: async (_tenant: string, job: string) => {
      started.push(job)
      await new Promise<void>(resolve => ends.set(job, resolve))
      return undefined
    },
    log: { warn: (fields: unknown) => { warned.push(fields) } },
    metrics,
    clock: { now: () => 0 },
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
  } as unknown as WorkersDeps)
  const endAll = () => { for (const end of ends.values()) end() }
  /** Resolves after a few more polls of the workers. */
  const polled = async () => {
    const before = gate.polls
    await eventually(() => expect(gate.polls).toBeGreaterThan(before + 3))
  }
  return { workers, due, warned, started, ends, endAll, gate, metrics, polled }
}

describe('webhook workers', () => {
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
    expect([started, due, workers.isReady]).toEqual([[], { quick: ['a'], slow: ['b'] }, true])
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
    await eventually(() => expect(workers.isReady).toBe(false))
    expect(warned.length).toBeGreaterThan(0)
    broken = false
    await eventually(() => expect(workers.isReady).toBe(true))
    await workers.stop()
  })
})

it('workers stay ready when an attempt cannot be recorded, which its lease repeats', async () => {
  const { due, workers, warned } = scene({
    findJob: async () => { throw new InfrastructureError('no store') },
  })
  due.quick.push('a')
  await eventually(() => expect(warned).toHaveLength(1))
  expect(workers.isReady).toBe(true)
  await workers.stop()
})

it('workers keep records until the history has them, not ready meanwhile, and ship all at the end',
  async () => {
    const records = new Map([1, 2].map(attempt => [`e:${attempt}`, { attempt } as Attempt]))
    const expected = [...records.values()]
    const written: Attempt[] = []
    let isBroken = true
    const { workers } = scene({
      deliveries: {
        unshipped: async limit => new Map([...records].slice(0, limit)),
        forget: async names => { for (const name of names) records.delete(name) },
      },
      history: {
        append: async attempts => {
          if (isBroken) throw new Error('broken')
          written.push(...attempts)
        },
      },
    })
    await eventually(() => expect(workers.isReady).toBe(false))
    expect(records.size).toBe(2)
    isBroken = false
    await eventually(() => expect([records.size, workers.isReady]).toEqual([0, true]))
    expect(written).toEqual(expected)
    records.set('e:3', { attempt: 3 } as Attempt)
    await workers.stop()
    expect(written).toHaveLength(3)
  })

it('workers ship all records but the one that the history refuses', async () => {
  const records = new Map([1, 2, 3].map(attempt => [`e:${attempt}`, { attempt } as Attempt]))
  const { workers, warned } = scene({
    deliveries: {
      unshipped: async () => new Map(records),
      forget: async names => { for (const name of names) records.delete(name) },
    },
    history: {
      append: async attempts => {
        const rows = new Set(attempts.flatMap(({ attempt }, at) => attempt === 2 ? [at] : []))
        if (rows.size > 0) {
          throw new RefusedRowsError('deliveries', { rows, of: attempts.length })
        }
      },
    },
  })
  await eventually(() => expect([...records.keys()]).toEqual(['e:2']))
  expect([workers.isReady, warned.length > 0]).toEqual([false, true])
  await workers.stop()
})

it('the gauge webhook_queue_depth follows the queue, and keeps its value while Redis is away',
  async () => {
    const counts: (() => number)[] = [() => 3, () => 5, () => { throw new Error('no store') }]
    const times: number[] = []
    const dueBy = async (nowMs: number) => {
      times.push(nowMs)
      return (counts.shift() ?? (() => 5))()
    }
    const { workers, warned, metrics } = scene({
      deliveries: { dueBy }, clock: { now: () => 77 }, measureEveryMs: 1,
    })
    await eventually(() => expect(warned).toHaveLength(1))
    expect(await metrics.text()).toContain('webhook_queue_depth 5')
    expect(new Set(times)).toEqual(new Set([77]))
    await workers.stop()
  })
