import Type, { type Static } from 'typebox'
import {
  clickhouseKeys, commonConfig, defineConfig, lanesConfig, messageKeys, pick, registryKeys,
  rootKeys, stateKeys,
} from '../runtime/platform/config.ts'

/**
 * How often each partition is flushed, in milliseconds: overdue messages are counted, deferred ones
 * stored.
 */
export const FLUSH_EVERY_MS = 100

/** Configuration of `settle`. */
export const settleConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...clickhouseKeys,
    ...rootKeys.results,
  ]),
  ...lanesConfig,
  INSERT_BATCH_BYTES: Type.Integer({
    default: 400_000,
    minimum: 1,
    description: 'Size of an insert. Blocks that end no job wait up to ' +
      `${2 * FLUSH_EVERY_MS} ms until those of their partition reach it.`,
  }),
  SETTLE_BATCH_MESSAGES: Type.Integer({
    default: 64, minimum: 1, maximum: 1_000, description: 'Maximum number of blocks per insert.',
  }),
})

export type SettleConfig = Static<typeof settleConfig>
