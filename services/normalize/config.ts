import Type, { type Static } from 'typebox'
import {
  defineConfig, pick, commonConfig, messageKeys, rootKeys,
} from '../runtime/platform/config.ts'
import { LANES } from '../topology.ts'

/** Configuration of `normalize`. */
export const normalizeConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', ...rootKeys.results, 'CACHE_SECRETS',
  ]),
  LANES: Type.Array(Type.Enum([...LANES]), {
    default: [...LANES], minItems: 1, description: 'Lanes this process serves.',
  }),
  NORMALIZE_BATCH_MESSAGES: Type.Integer({
    default: 8, minimum: 1, maximum: 100, description: 'Chunks decided between two commits.',
  }),
})

export type NormalizeConfig = Static<typeof normalizeConfig>
