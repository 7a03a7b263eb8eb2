import Type from 'typebox'
import { CHUNK_ROWS } from '../jobs/chunks.ts'
import { commonConfig, defineConfig, heapGrowth, messageKeys, pick } from '../platform/config.ts'
import { LANES, SERVICE_SLUGS } from '../topology.ts'

const partRows = (rows: number, description: string) =>
  Type.Integer({ default: rows, minimum: 1, maximum: CHUNK_ROWS, description })

/** Configuration of `lookup`. */
export const lookupConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'REDIS_CACHE_URL', 'KEY_RING',
    'KEY_ACTIVE',
  ]),
  HEAP_GROWTH_PERCENT: heapGrowth(60),
  LANES: Type.Array(Type.Enum([...LANES]), {
    default: [...LANES], minItems: 1, description: 'Lanes this process serves.',
  }),
  LOOKUP_BATCH_MESSAGES: Type.Integer({
    default: 25, minimum: 1, maximum: 100, description: 'Chunks decided between two commits.',
  }),
  // A job of 100 rows has to be checked within two seconds: two parts run side by side.
  VERIFY_BATCH_ROWS_SMALL: partRows(50, 'Rows of a verification batch in the lane small.'),
  VERIFY_BATCH_ROWS_BULK: partRows(200, 'Rows of a verification batch in the lane bulk.'),
  VERIFY_BATCH_ROWS_QUICK: partRows(
    CHUNK_ROWS, 'Rows of a verification batch in the lane bulk, for QUICK_SERVICES.'),
  QUICK_SERVICES: Type.Array(Type.Enum([...SERVICE_SLUGS]), {
    default: ['phone-validation', 'carrier-single', 'carrier-lookup'],
    description: 'Services whose checks wait for nobody, as those of numbering-plan do not: ' +
      'large parts spare them work, while slow checks spread better in small ones.',
  }),
  MAX_ACTIVE_JOBS: Type.Integer({
    default: 10, minimum: 1, description: 'Jobs with fresh rows a tenant may have at a time.',
  }),
  PRICES: Type.String({
    default: '',
    description: 'Unit prices in micros that differ from the defaults: JSON, service to micros.',
    examples: ['{"whatsapp":3500}'],
  }),
})
