import Type from 'typebox'
import { commonConfig, defineConfig, messageKeys, pick } from '../lib/config.ts'
import { LANES } from '../topology.ts'
import { GATHER_MS } from './open-rows.ts'

/** Configuration of `settle`. */
export const settleConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL', 'KEY_RING',
    'KEY_ACTIVE',
  ]),
  LANES: Type.Array(Type.Enum([...LANES]), {
    default: [...LANES], minItems: 1, description: 'Lanes this process serves.',
  }),
  GATHER_BYTES: Type.Integer({
    default: 400_000,
    minimum: 1,
    description: `Blocks of big jobs wait for others up to ${GATHER_MS} ms until they are so ` +
      'many bytes.',
  }),
  BATCH_MESSAGES: Type.Integer({
    default: 64, minimum: 1, maximum: 1_000, description: 'Blocks stored by one insert, at most.',
  }),
})
