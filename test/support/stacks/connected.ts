import { LRUCache } from 'lru-cache'
import { afterAll } from 'vitest'
import { connectOrganizationKeys } from '../../../services/accounts/connect-organization-keys.ts'
import { createJobKeys, createNewJobKeys } from '../../../services/jobs/job-keys.ts'
import { createMessageCodec } from '../../../services/jobs/message-codec.ts'
import { Clickhouse } from '../../../services/runtime/platform/clickhouse.ts'
import { createKafkaBus } from '../../../services/runtime/kafka/kafka-bus.ts'
import { openRedis } from '../redis/open-redis.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import { createWallet } from '../../../services/money/wallet.ts'
import { createJobKeyCopy } from '../../../services/jobs/wrapped-keys.ts'
import { createRepositories } from '../../../services/jobs/results/finish-job.ts'
import { createAuditDeps } from '../../../services/admin/audit/incremental.ts'
import { rootKeysIn } from '../keys/organization-keys.ts'
import { messageMacOf, recordMacOf } from '../keys/signed.ts'
import { stackEnv } from './stack.ts'

/** Everything a stage is connected to, on the suite's stack; closed along with the test file. */
export function connectAll (env = stackEnv()) {
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  const state = openRedis(env.REDIS_STATE_URL ?? '')
  const clickhouse = new Clickhouse(env.CLICKHOUSE_URL ?? '')
  const bus = createKafkaBus({
    brokers, clientId: 'test', mac: messageMacOf(env), onFatal: () => {},
  })
  const codec = createCodec(registrySource({ SCHEMA_REGISTRY_URL: env.SCHEMA_REGISTRY_URL ?? '' }))
  const organizationKeys = connectOrganizationKeys('results', rootKeysIn(env), { state })
  // Readers know no key that was just created.
  const keys = {
    ...createJobKeys({ redis: state, part: 'results', keys: organizationKeys }),
    ...createNewJobKeys({
      results: organizationKeys,
      webhooks: connectOrganizationKeys('webhooks', rootKeysIn(env), { state }),
    }, new LRUCache({ max: 1 })),
  }
  const messageCodec = createMessageCodec({ codec, keys })
  const clock = { now: () => Date.now(), stop: () => {} }
  const recordMac = recordMacOf(env)
  const connected = { bus, state, clickhouse, recordMac, codec, clock, messageCodec }
  afterAll(async () => {
    await bus.close()
    state.disconnect()
    await clickhouse.close()
  })
  return {
    ...connected,
    ...createRepositories(connected),
    ...createAuditDeps({ redis: state, clickhouse, recordMac, codec, keys }),
    env,
    brokers,
    keys,
    connected,
    wallet: createWallet(state),
    keyCopy: createJobKeyCopy(clickhouse, recordMac),
  }
}
