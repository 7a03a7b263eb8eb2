import { expect, it } from 'vitest'
import { createAdministrator, watchLag } from '../../../services/ledger/lag.ts'

it('tells lag and offset of groups, and asks no broker before metrics are read', async () => {
  const watched: string[] = []
  const administrator = createAdministrator({ brokers: ['127.0.0.1:1'] }, 'test')
  watchLag({
    administrator,
    metrics: { watchAll: name => { watched.push(name) } },
    log: { warn: () => { throw new Error('nothing was asked') } },
  })
  expect(watched).toEqual(['consumer_lag_messages', 'consumer_offset'])
  await administrator.close()
})
