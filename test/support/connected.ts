import { afterAll } from 'vitest'
import { createJobKeys } from '../../services/jobs/job-keys.ts'
import { createWire } from '../../services/jobs/wire.ts'
import { connectClickhouse } from '../../services/lib/clickhouse.ts'
import { createKafkaBus } from '../../services/lib/kafka/bus.ts'
import { createKeyRing } from '../../services/lib/key-ring.ts'
import { connectRedis } from '../../services/lib/redis.ts'
import { createCodec, registrySource } from '../../services/lib/registry.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { createJobKeyCopy } from '../../services/records/job-key-copy.ts'
import { createStores } from '../../services/records/stores.ts'
import { createAuditDeps } from '../../services/workspace/audit/command.ts'
import { messageMacOf, recordMacOf } from './signed.ts'
import { stackEnv } from './stack.ts'

/** Everything a stage is connected to, on the suite's stack; closed along with the test file. */
export function connectAll () {
  const env = stackEnv()
  const brokers = (env.KAFKA_BROKERS ?? '').split(',')
  const state = connectRedis(env.REDIS_STATE_URL ?? '')
  const clickhouse = connectClickhouse(env.CLICKHOUSE_URL ?? '')
  const bus = createKafkaBus({
    brokers, clientId: 'test', mac: messageMacOf(env), onFatal: () => {},
  })
  const codec = createCodec(registrySource(env.SCHEMA_REGISTRY_URL ?? ''))
  const ring = createKeyRing({
    KEY_RING: JSON.parse(env.KEY_RING ?? '') as Record<string, string>,
    KEY_ACTIVE: env.KEY_ACTIVE ?? '',
  })
  const keys = createJobKeys({ redis: state, ring })
  const wire = createWire({ codec, keys })
  const clock = { now: () => Date.now(), stop: () => {} }
  const recordMac = recordMacOf(env)
  const connected = { bus, state, clickhouse, recordMac, codec, clock, wire }
  afterAll(async () => {
    await bus.close()
    state.disconnect()
    await clickhouse.close()
  })
  return {
    ...connected,
    ...createStores(connected),
    ...createAuditDeps({ redis: state, clickhouse, recordMac, codec, keys }),
    env,
    brokers,
    keys,
    connected,
    wallet: createWallet(state),
    keyCopy: createJobKeyCopy(clickhouse, recordMac),
  }
}
