import { expect, it } from 'vitest'
import { loadConfig } from '../../../services/runtime/platform/config.ts'
import { batchRowsOf, lookupConfig } from '../../../services/lookup/config.ts'
import { STAGE_ENVIRONMENT } from '../../support/stacks/stage-environment.ts'

it.each([
  [{}, [50, 200, 2_000]],
  [{
    VERIFY_BATCH_ROWS_SMALL: '5', VERIFY_BATCH_ROWS_QUICK: '70', QUICK_SERVICES: '["whatsapp"]',
  }, [5, 70, 200]],
])('verification batches have the size of their lane and service with %j', (settings, sizes) => {
  const batchRows = batchRowsOf(loadConfig(lookupConfig, { ...STAGE_ENVIRONMENT, ...settings }))
  expect([
    batchRows('small', 'phone-validation'), batchRows('bulk', 'whatsapp'),
    batchRows('bulk', 'phone-validation'),
  ]).toEqual(sizes)
})
