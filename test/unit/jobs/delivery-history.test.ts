import type { ClickHouseClient } from '@clickhouse/client'
import { describe, expect, it } from 'vitest'
import { createDeliveryHistory, type Attempt } from '../../../services/jobs/delivery-history.ts'

const attempt: Attempt = {
  tenant: 'org_1.live',
  job: 'job_1',
  event: 'evt_1',
  attempt: 2,
  type: 'job.completed',
  atMs: 1_000,
  outcome: 'failed',
  reason: 'status',
  httpStatus: 503,
  durationMs: 12.7,
  nextAtMs: 2_000,
}

describe('the history of deliveries', () => {
  it('is written in one insert, in whole milliseconds, and not when there is none', async () => {
    const inserts: unknown[] = []
    const insert = async (options: unknown) => { inserts.push(options) }
    const history = createDeliveryHistory({ insert } as unknown as ClickHouseClient)
    await history.append([])
    await history.append([attempt, { ...attempt, attempt: 3, nextAtMs: undefined }])
    expect(inserts).toHaveLength(1)
    const { values } = inserts[0] as { values: readonly object[] }
    expect(values).toEqual([
      {
        tenant: 'org_1.live',
        job: 'job_1',
        event: 'evt_1',
        attempt: 2,
        type: 'job.completed',
        at: '1970-01-01T00:00:01.000Z',
        outcome: 'failed',
        reason: 'status',
        http_status: 503,
        duration_ms: 13,
        next_at: '1970-01-01T00:00:02.000Z',
      },
      expect.objectContaining({ attempt: 3, next_at: null }),
    ])
  })
})
