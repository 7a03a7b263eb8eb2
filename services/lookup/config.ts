import Type, { type Static } from 'typebox'
import { optionPricesConfig } from '../jobs/options.ts'
import { CHUNK_ROWS } from '../jobs/submit.ts'
import {
  cacheKeys, commonConfig, defineConfig, lanesConfig, messageKeys, pick, registryKeys, rootKeys,
  stateKeys,
} from '../runtime/platform/config.ts'
import { SERVICE_SLUGS } from '../topology.ts'
import { unitPricesConfig } from '../money/prices.ts'

const batchRows = (rows: number, description: string) =>
  Type.Integer({ default: rows, minimum: 1, maximum: CHUNK_ROWS, description })

/** Configuration of `lookup`. */
export const lookupConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...cacheKeys,
    ...rootKeys.results,
  ]),
  ...lanesConfig,
  LOOKUP_BATCH_MESSAGES: Type.Integer({
    default: 25, minimum: 1, maximum: 100, description: 'Chunks decided between two commits.',
  }),
  // A job of 100 rows must be checked within two seconds, so it has two concurrent batches.
  VERIFY_BATCH_ROWS_SMALL: batchRows(50, 'Rows of a verification batch in the lane small.'),
  VERIFY_BATCH_ROWS_BULK: batchRows(200, 'Rows of a verification batch in the lane bulk.'),
  VERIFY_BATCH_ROWS_QUICK: batchRows(
    CHUNK_ROWS, 'Rows of a verification batch in the lane bulk, for QUICK_SERVICES.'),
  QUICK_SERVICES: Type.Array(Type.Enum([...SERVICE_SLUGS]), {
    default: ['phone-validation', 'carrier-single', 'carrier-lookup'],
    description: 'Services whose checks make no calls, such as those of numbering-plan: large ' +
      'batches save work, while slow checks need small batches for concurrency.',
  }),
  MAX_ACTIVE_JOBS: Type.Integer({
    default: 10,
    minimum: 1,
    description: 'Maximum number of active jobs with fresh rows per organization, live and test ' +
      'together.',
  }),
  ...unitPricesConfig,
  ...optionPricesConfig,
})

export type LookupConfig = Static<typeof lookupConfig>
