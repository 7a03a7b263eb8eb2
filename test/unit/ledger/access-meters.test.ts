import { expect, it } from 'vitest'
import { watchAccessLog } from '../../../services/ledger/access-meters.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'
import { accessEntry } from '../../support/access.ts'

async function textOf ({ waiting = [accessEntry({ at: 2_000 })], stored = 7 } = {}) {
  const metrics = createMetrics()
  watchAccessLog({
    outbox: { oldest: async () => waiting.map(entry => ({ id: '1', entry })) },
    head: { read: async () => 9 },
    copy: { count: async last => Math.min(stored, last) },
    clock: { now: () => 5_000 },
    metrics,
    log: { warn: () => {} },
  })
  return await metrics.text()
}

it('the access log reports the age of its oldest entry not shipped, and lost rows', async () => {
  const text = await textOf()
  expect(text).toMatch(/^access_log_oldest_seconds 3$/m)
  expect(text).toMatch(/^access_log_entries_missing 2$/m)
  const sound = await textOf({ waiting: [], stored: 12 })
  expect(sound).toMatch(/^access_log_oldest_seconds 0$/m)
  expect(sound).toMatch(/^access_log_entries_missing 0$/m)
})
