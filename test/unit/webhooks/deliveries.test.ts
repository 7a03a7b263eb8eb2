import { describe, expect, it } from 'vitest'
import { type Attempt, createDeliveryHistory } from '../../../services/webhooks/deliveries.ts'
import { createRecordMac, type SignedRecord } from '../../../services/runtime/crypto/mac.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'
import { createClickhouseDouble, storedAttempts } from '../../support/clickhouse/stored.ts'

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
const second = { ...attempt, attempt: 3, nextAtMs: undefined }

/** The history on ClickHouse that answers with these rows; `forged` are those reported. */
function historyOn (rows: readonly object[] = []) {
  const double = createClickhouseDouble(rows)
  const forged: SignedRecord[] = []
  const mac = createRecordMac(messageKeysOf(), record => forged.push(record))
  return { ...double, forged, history: createDeliveryHistory(double.clickhouse, mac) }
}

const stored = () => storedAttempts([attempt, second])

describe('the history of deliveries', () => {
  it('is written in one insert, and not when there is none', async () => {
    const { history, inserted, tokens } = historyOn()
    await history.append([])
    await history.append([attempt, second])
    expect([inserted.length, tokens.length]).toEqual([2, 1])
  })

  it('gives back the attempts that it was given, once each', async () => {
    const [one, two] = await stored()
    const { history, forged, queries } = historyOn([one!, one!, two!])
    expect(await history.list('org_1.live', 'job_1'))
      .toEqual([{ ...attempt, durationMs: 13 }, { ...second, durationMs: 13 }])
    expect(queries[0]?.parameters).toEqual({ tenants: ['org_1.live'], jobs: ['job_1'] })
    expect(forged).toEqual([])
  })

  it('leaves out rows of which anything was changed, and never a true one for them', async () => {
    const [one] = await stored()
    const changes = [
      { outcome: 'delivered' }, { http_status: 200 }, { reason: '' }, { attempt: 9 }, { mac: '' },
      { job: 'job_2' }, { tenant: 'org_2.live' }, { event: 'evt_2' }, { type: 'job.failed' },
      { at: '1' }, { next_at: '0' }, { duration_ms: 1 },
    ]
    const rows = changes.map(change => ({ ...one, ...change }))
    const { history, forged } = historyOn([rows[0]!, one!, ...rows.slice(1)])
    expect(await history.list('org_1.live', 'job_1')).toEqual([{ ...attempt, durationMs: 13 }])
    expect(forged).toHaveLength(changes.length)
    expect(forged[0]).toMatchObject({ table: 'deliveries', tenant: 'org_1.live' })
  })

  it('of an endpoint is read by pages, and forged rows hide none', async () => {
    const [one, two] = await stored()
    const forged = { ...one, outcome: 'delivered' }
    const all = [forged, forged, one!, one!, two!]
    const limits: number[] = []
    const double = createClickhouseDouble(all)
    const stream = ((query: string, parameters: { maxRows: number }) => {
      limits.push(parameters.maxRows)
      return createClickhouseDouble(all.slice(0, parameters.maxRows)).clickhouse.stream(query)
    }) as typeof double.clickhouse.stream
    const history = createDeliveryHistory({ insert: double.clickhouse.insert, stream },
      createRecordMac(messageKeysOf(), () => {}))
    expect(await history.listOfEndpoint('org_1.live', 'we_1', { limit: 2 }))
      .toEqual([{ ...attempt, durationMs: 13 }, { ...second, durationMs: 13 }])
    expect(limits).toEqual([2, 32])
  })

  it('of an endpoint continues after an attempt', async () => {
    const { history, queries } = historyOn(await stored())
    const after = { job: 'job_1', event: 'evt_1.we_1', attempt: 3 }
    await history.listOfEndpoint('org_1.live', 'we_1', { limit: 5, after })
    expect(queries[0]?.parameters).toEqual({
      tenant: 'org_1.live',
      suffix: '.we_1',
      job: 'job_1',
      event: 'evt_1.we_1',
      number: 3,
      maxRows: 5,
    })
  })
})
