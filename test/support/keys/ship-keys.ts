import { shipAccounts } from '../../../services/accounts/account-topics.ts'
import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import { openRedis } from '../redis/open-redis.ts'
import { sleep } from '../../../services/runtime/platform/retry.ts'
import { messageMacOf } from './signed.ts'

const SHIP_EVERY_MS = 20

/**
 * Ships accounts and new keys of organizations, as ledger does, for tests without one; the answer
 * ends it.
 */
export function keepShippingKeys (
  env: Readonly<Record<string, string | undefined>>
): () => Promise<void> {
  const redis = openRedis(env.REDIS_STATE_URL ?? '')
  const bus = createKafkaBus({
    brokers: (env.KAFKA_BROKERS ?? '').split(','),
    clientId: 'test-keys',
    mac: messageMacOf(env as Record<string, string>),
    onFatal: () => {},
  })
  const codec = createCodec(registrySource({ SCHEMA_REGISTRY_URL: env.SCHEMA_REGISTRY_URL ?? '' }))
  const deps = { redis, codec, accountsProducer: bus.producer('test-keys') }
  const stopping = new AbortController()
  const shipping = (async () => {
    while (!stopping.signal.aborted) {
      // A store may be down for a test; the next round ships what is left.
      await shipAccounts(deps, stopping.signal).catch(() => {})
      await sleep(SHIP_EVERY_MS, stopping.signal).catch(() => {})
    }
  })()
  return async () => {
    stopping.abort()
    await shipping
    redis.disconnect()
    await bus.close()
  }
}
