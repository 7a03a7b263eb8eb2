import Type, { type Static } from 'typebox'
import {
  clickhouseKeys, commonConfig, defineConfig, messageKeys, pick, registryKeys, rootKeys, stateKeys,
} from '../runtime/platform/config.ts'

/** Configuration of `publish`. */
export const publishConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...clickhouseKeys,
    ...rootKeys.results, ...rootKeys.partners,
  ]),
  PUBLISH_BATCH_MESSAGES: Type.Integer({
    default: 20, minimum: 1, maximum: 1_000, description: 'Ended jobs published at the same time.',
  }),
})

export type PublishConfig = Static<typeof publishConfig>
