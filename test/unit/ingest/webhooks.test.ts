import type { ClickHouseClient } from '@clickhouse/client'
import { headerKeyOf } from '../../../services/jobs/job-key-parts.ts'
import type { Redis } from 'ioredis'
import { describe, expect, it } from 'vitest'
import { createWebhooks } from '../../../services/ingest/webhooks.ts'
import { sealHeader } from '../../../services/jobs/rows-seal.ts'
import { organizationKeysOf } from '../../support/keys/organization-keys.ts'
import { recordMacOf } from '../../support/keys/signed.ts'
import { rowsAnswer, storedAttempts } from '../../support/clickhouse/stored.ts'
import { closedJob, JOB_ID, NOW_MS } from './doubles.ts'

const KEY = Buffer.alloc(32, 3)
const sent = { metadata: { team: 'blue' }, webhookUrl: 'https://hooks.example.com/in' }

function webhooksOf (rows: readonly object[], hash: Record<string, string> = {}) {
  const queries: unknown[] = []
  const query = async ({ query_params: parameters }: { query_params: unknown }) => {
    queries.push(parameters)
    return rowsAnswer(rows)
  }
  const webhooks = createWebhooks({
    clickhouse: { query } as unknown as ClickHouseClient,
    recordMac: recordMacOf(),
    keys: { get: async () => KEY },
    clock: { now: () => 0, stop: () => {} },
    webhookKeys: organizationKeysOf(1),
    state: { hgetall: async () => hash } as unknown as Redis,
  })
  return { webhooks, queries }
}

describe('the webhook of a job', () => {
  it('has its address in what was sealed with the job, if anything was', async () => {
    const header = sealHeader(headerKeyOf(KEY), { tenant: 'org_01.live', job: JOB_ID }, sent)
    const { webhooks } = webhooksOf([])
    expect(await webhooks.openHeader(closedJob({ header }))).toEqual(sent)
    expect(await webhooks.openHeader(closedJob())).toEqual({ metadata: {}, webhookUrl: '' })
  })

  it('has its attempts in the history and its state in Redis', async () => {
    const attempt = {
      tenant: 'org_01.live',
      job: JOB_ID,
      event: 'evt_1',
      attempt: 1,
      type: 'job.completed',
      atMs: NOW_MS,
      outcome: 'delivered',
      reason: '',
      httpStatus: 200,
      durationMs: 5,
      nextAtMs: undefined,
    } as const
    const { webhooks, queries } = webhooksOf(
      await storedAttempts([attempt]), { state: 'exhausted', attempts: '4', dueAtMs: '' })
    expect(await webhooks.listAttempts('org_01.live', JOB_ID)).toEqual([attempt])
    expect(queries).toEqual([{ tenants: ['org_01.live'], jobs: [JOB_ID] }])
    expect(await webhooks.findDelivery('evt_1'))
      .toEqual({ state: 'exhausted', attempts: 4, dueAtMs: undefined })
  })
})
