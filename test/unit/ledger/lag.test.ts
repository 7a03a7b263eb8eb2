import { expect, it } from 'vitest'
import { createAdminClient } from '../../../services/kafka/connection.ts'
import { watchLag } from '../../../services/ledger/lag.ts'

it('watchLag reports lag and offset of groups, connecting only on a scrape', async () => {
  const watched: string[] = []
  const adminClient = createAdminClient({ brokers: ['127.0.0.1:1'] }, 'test')
  watchLag({
    adminClient,
    metrics: { watchAll: name => { watched.push(name) } },
    log: { warn: () => { throw new Error('unexpected warning') } },
  })
  expect(watched).toEqual(['consumer_lag_messages', 'consumer_offset'])
  await adminClient.close()
})
