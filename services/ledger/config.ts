import Type, { type Static } from 'typebox'
import { ENTRY_VALID_MS } from '../money/redis-keys.ts'
import {
  cacheKeys, clickhouseKeys, commonConfig, defineConfig, messageKeys, pick, registryKeys, rootKeys,
  stateKeys,
} from '../runtime/platform/config.ts'

/** Configuration of `ledger`. */
export const ledgerConfig = defineConfig({
  ...pick(commonConfig, [
    ...messageKeys, ...registryKeys, ...stateKeys, ...clickhouseKeys,
    ...rootKeys.results, ...cacheKeys, 'CACHE_SECRETS',
  ]),
  STATE_DURABILITY: Type.Enum(['aof', 'replicas', 'managed'], {
    default: 'aof',
    description: 'What keeps acknowledged writes of the state Redis: its append-only file; ' +
      'replicas, as on ElastiCache, with the journal for what they lack; or a managed service ' +
      'with a durable log, as MemoryDB. An alert says if the first two are missing.',
  }),
  LEDGER_BATCH_MESSAGES: Type.Integer({
    default: 500,
    minimum: 1,
    maximum: 10_000,
    description: 'Entries of a partition that are copied to ClickHouse without waiting for more.',
  }),
  COPY_AFTER_MS: Type.Integer({
    default: 2_000,
    minimum: 0,
    description: 'Age from which fewer entries and keys of jobs are copied to ClickHouse. Each ' +
      'insert has a fixed cost.',
  }),
  REAP_EVERY_MS: Type.Integer({
    default: 2_000,
    minimum: 10,
    description: 'Pause between two takeovers: of entries that no stage ships, such as those of ' +
      'top-ups, and of what a stage can no longer finish.',
  }),
  ORPHAN_AGE_MS: Type.Integer({
    default: 2_000,
    minimum: 0,
    description: 'Age from which entries not shipped and ended jobs not closed are looked at. ' +
      'They are taken over once their stage can no longer finish them.',
  }),
  LEADER_POLL_MS: Type.Integer({
    default: 1_000,
    minimum: 10,
    description: 'Pause between two checks for a restart of Redis and for the leader.',
  }),
  LEADER_LEASE_MS: Type.Integer({
    default: 5_000,
    minimum: 100,
    description: 'Another ledger takes over from a leader that has been silent for this long.',
  }),
  LEADER_GRACE_MS: Type.Integer({
    default: 1_000,
    minimum: 2 * ENTRY_VALID_MS,
    description: 'After a restart of Redis the journal is read a second time, this long after ' +
      'the comparison began: twice as long as settle holds an entry.',
  }),
  CHECK_EVERY_MS: Type.Integer({
    default: 60_000,
    minimum: 100,
    description: 'Pause between two checks of the sums of all wallets, and of the keys of all ' +
      'organizations.',
  }),
  SNAPSHOT_EVERY_MS: Type.Integer({
    default: 30_000,
    minimum: 100,
    description: 'Pause between two snapshots of the wallets whose money has moved. A recovery ' +
      'reads the journal from there on.',
  }),
  SNAPSHOT_BEHIND_MS: Type.Integer({
    default: 60_000,
    minimum: 0,
    description: 'Snapshots leave out entries younger than this. If Redis loses more than this, ' +
      'the whole journal is read.',
  }),
  JOURNAL_HEAD_TARGET: Type.Optional(Type.String({
    pattern: '^(/|https://|http://(127\\.0\\.0\\.1|localhost)[:/]).+',
    description: 'Where the signed heads of the journal are exported to, for `audit ' +
      '--journal-head`: the path of a file outside of this system, or an https:// address that ' +
      'takes a POST; no export if none.',
    examples: ['/mnt/elsewhere/journal-heads.ndjson'],
  })),
  JOURNAL_HEAD_EVERY_MS: Type.Integer({
    default: 86_400_000, minimum: 100, description: 'Time between two exports of these heads.',
  }),
  ERASE_EVERY_MS: Type.Integer({
    default: 60_000,
    minimum: 100,
    description: 'Pause between two rounds of deleting the keys of erased jobs. Erasures of one ' +
      'round share a rewrite of the append-only file of Redis and a mutation of ClickHouse.',
  }),
  STALLED_AFTER_MS: Type.Integer({
    default: 3_600_000,
    minimum: 100,
    description: 'A job without progress for this long, and without rows in a topic, fails.',
  }),
})

export type LedgerConfig = Static<typeof ledgerConfig>
