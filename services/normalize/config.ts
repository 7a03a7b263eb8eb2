import Type, { type Static } from 'typebox'
import {
  commonConfig, defineConfig, lanesConfig, messageKeys, pick, registryKeys, rootKeys, stateKeys,
} from '../runtime/platform/config.ts'

/** Configuration of `normalize`. */
export const normalizeConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...rootKeys.results, 'CACHE_SECRETS',
  ]),
  ...lanesConfig,
  NORMALIZE_BATCH_MESSAGES: Type.Integer({
    default: 8, minimum: 1, maximum: 100, description: 'Chunks decided between two commits.',
  }),
})

export type NormalizeConfig = Static<typeof normalizeConfig>
