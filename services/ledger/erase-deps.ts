import type { Static } from 'typebox'
import { connectOrganizationKeys } from '../accounts/connect-organization-keys.ts'
import { redisRecordCache } from '../cache/redis-cache.ts'
import { createTokenizer, readSecrets } from '../cache/tokenizer.ts'
import type { MessageKeySettings } from '../crypto/mac.ts'
import type { Connections } from '../engine/connections.ts'
import { createErasures } from '../jobs/erasures.ts'
import { createJobKeyCopy } from '../jobs/job-key-copy.ts'
import { createJobKeyEraser } from '../jobs/job-key-eraser.ts'
import { kafkaConnectionOf, type KafkaSettings } from '../kafka/connection.ts'
import { createMessageMac } from '../kafka/message-mac.ts'
import { createTopicReader } from '../kafka/topic-reader.ts'
import { createCachedErasure, type EraseCachedDeps } from './erase-cached.ts'
import { startErasing } from './erase-jobs.ts'
import type { ledgerConfig } from './config.ts'

type Config = KafkaSettings & MessageKeySettings & Pick<Static<typeof ledgerConfig>,
  'INSTANCE' | 'RESULTS_ROOT_KEYS' | 'RESULTS_ROOT_KEY_ACTIVE' | 'CACHE_SECRETS' |
  'ERASE_EVERY_MS'>
type Connected =
  Pick<Connections, 'bus' | 'state' | 'cache' | 'clickhouse' | 'recordMac' | 'codec' | 'clock'> &
  Pick<Parameters<typeof startErasing>[0], 'log' | 'isLeader' | 'metrics'> &
  Pick<EraseCachedDeps, 'archive' | 'blocks'>

/** Starts to erase requested jobs, on the connections of the process. */
export function connectErasing (
  config: Config, connected: Connected
): ReturnType<typeof startErasing> {
  const { bus, state: redis, clickhouse, recordMac, codec, clock } = connected
  const keyCopy = createJobKeyCopy(clickhouse, recordMac)
  const { read } = createTopicReader({
    ...kafkaConnectionOf(config),
    clientId: `ledger.${config.INSTANCE}.erasures`,
    mac: createMessageMac(config),
  })
  const keys = createJobKeyEraser({
    redis, keyCopy, codec, read, producer: bus.producer('ledger.erasures'), now: clock.now,
  })
  const eraseCached = createCachedErasure({
    ...connected,
    keyCopy,
    keys,
    organizationKeys: connectOrganizationKeys('results', config, { state: redis }),
    tokenize: createTokenizer(readSecrets(config.CACHE_SECRETS)),
    cache: redisRecordCache(connected.cache),
  })
  return startErasing({
    ...connected,
    erasures: createErasures(redis),
    keys,
    eraseCached,
    everyMs: config.ERASE_EVERY_MS,
  })
}
