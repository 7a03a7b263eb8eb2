import type { Redis } from 'ioredis'
import type { Admin } from 'kafkajs'
import { expect, it, vi } from 'vitest'
import { watchStores } from '../../../services/ledger/store-meters.ts'
import { createMetrics } from '../../../services/platform/metrics.ts'

it('partitions without a copy in sync are counted, while the other stores are away', async () => {
  const metrics = createMetrics()
  const partitions = [
    { isr: [1, 2, 3], replicas: [1, 2, 3] },
    { isr: [1, 3], replicas: [1, 2, 3] },
    { isr: [], replicas: [1, 2, 3] },
  ]
  const admin = {
    fetchTopicMetadata: async () => ({
      topics: [{ name: 'whole', partitions: partitions.slice(0, 1) }, { name: 'torn', partitions }],
    }),
  } as unknown as Admin
  const away = () => Promise.reject(new Error('away'))
  watchStores({
    adminClient: { use: work => work(admin) },
    state: { info: away } as unknown as Redis,
    clickhouse: { query: away },
    metrics,
    log: { warn: vi.fn() },
  })
  expect(await metrics.text()).toMatch(/^kafka_partitions_under_replicated 2$/m)
  expect(await metrics.text()).not.toMatch(/^(redis_memory|clickhouse_disk)_bytes/m)
})
