import Type, { type Static } from 'typebox'
import {
  defineConfig, pick, commonConfig, messageKeys, rootKeys,
} from '../runtime/platform/config.ts'

/** Configuration of `publish`. */
export const publishConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, 'SCHEMA_REGISTRY_URL', 'REDIS_STATE_URL', 'CLICKHOUSE_URL',
    ...rootKeys.results, ...rootKeys.partners,
  ]),
  PUBLISH_BATCH_MESSAGES: Type.Integer({
    default: 20, minimum: 1, maximum: 1_000, description: 'Ended jobs published at the same time.',
  }),
})

export type PublishConfig = Static<typeof publishConfig>
