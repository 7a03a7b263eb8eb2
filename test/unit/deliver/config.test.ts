import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { deliverConfig } from '../../../services/deliver/config.ts'
import { workersDeps } from '../../../services/deliver/main.ts'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { endedJob } from '../../support/webhooks/deliveries.ts'
import { recordMacOf, storedJob } from '../../support/keys/signed.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'
import { createClickhouseDouble } from '../../support/clickhouse/stored.ts'

describe('the configuration of deliver', () => {
  const config = loadConfig(deliverConfig, STAGE_ENVIRONMENT)

  it('has the values of the public interface as defaults', () => {
    expect(config).toMatchObject({
      WEBHOOK_TIMEOUT_MS: 15_000, WEBHOOK_ALLOW_HTTP: false, WEBHOOK_ALLOW_LOOPBACK: false,
    })
    // A lease must be longer than its attempt.
    expect(config.WEBHOOK_LEASE_MS).toBeGreaterThanOrEqual(2 * config.WEBHOOK_TIMEOUT_MS)
  })

  it('accepts another retry schedule', () => {
    const load = (WEBHOOK_WAITS_MS: string) =>
      loadConfig(deliverConfig, { ...STAGE_ENVIRONMENT, WEBHOOK_WAITS_MS })
    expect(load('[10,20]').WEBHOOK_WAITS_MS).toEqual([10, 20])
    expect(() => load('[-1]'))
      .toThrow('WEBHOOK_WAITS_MS')
  })

  it('finds a job in the archive after Redis has removed it', async () => {
    const job = endedJob({ closed: false })
    const deps = workersDeps(config, {
      state: { hmget: async () => [], call: async () => [] } as unknown as Redis,
      clickhouse: createClickhouseDouble([storedJob(job, [])]).clickhouse,
      recordMac: recordMacOf(),
      clock: { now: () => 0, stop: () => {} },
      keys: { get: async () => undefined } as never,
      log: {} as never,
      metrics: {} as never,
    })
    expect(await deps.findJob(job.tenant, job.id)).toEqual(endedJob())
  })
})
