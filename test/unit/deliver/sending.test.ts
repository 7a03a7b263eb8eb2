import { describe, expect, it } from 'vitest'
import { startSending, type SendingParts } from '../../../services/deliver/sending.ts'
import type { Claim, Note } from '../../../services/jobs/deliveries.ts'
import { InfrastructureError } from '../../../services/lib/errors.ts'
import { createMetrics } from '../../../services/lib/metrics.ts'
import { eventually } from '../../support/eventually.ts'

const claim: Claim = {
  event: 'evt_1',
  tenant: 'org_1.live',
  job: 'job_1',
  type: 'job.completed',
  attempt: 1,
  once: false,
  token: 't',
}

function scene (fault: Error) {
  const noted: Note[] = []
  const warned: unknown[] = []
  const due = [claim]
  const metrics = createMetrics()
  const parts = {
    deliveries: {
      claim: async ({ pace }: { pace: string }) => pace === 'quick' ? due.splice(0) : [],
      note: async (_claim: Claim, note: Note) => { noted.push(note); return true },
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
  } as unknown as SendingParts
  return { parts, noted, warned, metrics }
}

describe('a fault while an attempt is made', () => {
  it('is noted as a failed attempt, so that it is not made over and over', async () => {
    const { parts, noted, warned, metrics } = scene(new TypeError('a fault'))
    const sending = startSending(parts)
    await eventually(() => expect(noted).toHaveLength(1))
    expect(noted[0]).toMatchObject({
      state: 'waiting', dueAtMs: 1_100, attempt: { outcome: 'failed', reason: 'internal' },
    })
    expect(warned).toHaveLength(1)
    expect(sending.ready()).toBe(true)
    expect(await metrics.text())
      .toContain('webhook_attempts_total{outcome="failed",reason="internal"} 1')
    await sending.stop()
  })

  it('of infrastructure is not: the lease ends, and the attempt is made again', async () => {
    const { parts, noted, warned } = scene(new InfrastructureError('no store'))
    const sending = startSending(parts)
    await eventually(() => expect(warned).toHaveLength(1))
    await sending.stop()
    expect(noted).toEqual([])
  })
})
