import { expect, it } from 'vitest'
import { withAccessLog } from '../../../../services/admin/access-log.ts'
import { auditTable, findInvariant } from '../../../../services/admin/audit/report.ts'
import { codec } from '../../../support/clickhouse/results.ts'
import { recordMacOf } from '../../../support/keys/signed.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'

const sound = { ok: true, tenants: [], breaches: [] }

/** Stores without any entry, of which Redis knows that some were copied. */
const storesOf = (copied: string | null) => ({
  codec,
  read: async () => {},
  clickhouse: createClickhouseDouble().clickhouse,
  recordMac: recordMacOf(),
  redis: { zscore: async () => copied },
}) as never

it('a report says how long the access log is, and what is wrong with it', async () => {
  const empty = await withAccessLog(sound, storesOf(null), undefined)
  expect(empty).toEqual({ ...sound, accessLog: { entries: 0, hash: '0'.repeat(64) } })
  expect(auditTable(empty, true)).toContain('access log: 0 entries, the last hash is 000')
  const cut = await withAccessLog(sound, storesOf('2'), { seq: 2, hash: 'h', missing: [] })
  expect(cut.ok).toBe(false)
  expect(cut.breaches.map(({ tenant, rule, detail }) => [tenant, findInvariant(rule), detail]))
    .toEqual([
      ['access.log', 'I13', 'entries 1 to 2 are missing in Kafka and in ClickHouse'],
      ['access.log', 'I13', expect.stringContaining('entry 2 had the hash h when it was exported')],
    ])
})
