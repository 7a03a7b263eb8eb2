import { describe, expect, it } from 'vitest'
import { Workers, type WorkersDeps } from '../../../services/webhooks/workers.ts'
import type { DeliveryClaim, AttemptRecord } from '../../../services/webhooks/deliveries.ts'
import { InfrastructureError } from '../../../services/runtime/platform/errors.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { eventually } from '../../support/eventually.ts'

const claim: DeliveryClaim = {
  event: 'evt_1',
  tenant: 'org_1.live',
  job: 'job_1',
  type: 'job.completed',
  attempt: 1,
  once: false,
  token: 't',
}

function scene (fault: Error) {
  const records: AttemptRecord[] = []
  const warned: unknown[] = []
  const due = [claim]
  const metrics = createMetrics()
  const deps = {
    deliveries: {
      claim: async ({ priority }: { priority: string }) =>
        priority === 'quick' ? due.splice(0) : [],
      record: async (_claim: DeliveryClaim, one: AttemptRecord) => {
        records.push(one)
        return true
      },
      dueBy: async () => 0,
      unshipped: async () => new Map(),
      forget: async () => {},
    },
    history: { append: async () => {} },
    findJob: async () => { throw fault },
    metrics,
    log: { warn: (fields: unknown) => { warned.push(fields) } },
    clock: { now: () => 1_000 },
    waitsMs: [100],
    slowAfterMs: 1_000,
    slots: { quick: 1, slow: 1 },
    tenantSlots: 10,
    leaseMs: 1_000,
    pollMs: 5,
    random: () => 0.5,
  } as unknown as WorkersDeps
  return { deps, records, warned, metrics }
}

describe('an error during a webhook attempt', () => {
  it('is recorded as a failed attempt, so that it is not repeated in a tight loop', async () => {
    const { deps, records, warned, metrics } = scene(new TypeError('a fault'))
    const delivery = new Workers(deps)
    await eventually(() => expect(records).toHaveLength(1))
    expect(records[0]).toMatchObject({
      state: 'waiting', dueAtMs: 1_100, attempt: { outcome: 'failed', reason: 'internal' },
    })
    expect(warned).toHaveLength(1)
    expect(delivery.isReady).toBe(true)
    expect(await metrics.text())
      .toContain('webhook_attempts_total{outcome="failed",reason="internal"} 1')
    await delivery.stop()
  })

  it('of infrastructure is not recorded: the attempt is repeated after its lease', async () => {
    const { deps, records, warned } = scene(new InfrastructureError('no store'))
    const delivery = new Workers(deps)
    await eventually(() => expect(warned).toHaveLength(1))
    await delivery.stop()
    expect(records).toEqual([])
  })
})
