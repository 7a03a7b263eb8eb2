import { connectAllKeys } from '../../../services/accounts/connect-organization-keys.ts'
import {
  OrganizationKeyStore, wrappingKeyId,
} from '../../../services/accounts/organization-keys.ts'
import {
  copiesInTopic, restoreAccounts, shipAccounts,
} from '../../../services/accounts/account-topics.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { ACCOUNTS_RUN_KEY } from '../../../services/accounts/records.ts'
import type { CopiedKey, JobKeyCopy, ReadTopic } from '../../../services/jobs/wrapped-keys.ts'
import { splitJobKey } from '../../../services/jobs/job-keys.ts'
import { createCodec } from '../../../services/runtime/kafka/registry.ts'
import { localSource } from '../kafka/local-schemas.ts'
import { createMemoryBus } from '../kafka/memory-bus.ts'
import { ROOT_KEY_SETTINGS, rootKeysIn } from './organization-keys.ts'
import { startRedis } from '../redis/redis.ts'
import { MARK_COMPARED_LUA } from '../redis/unlock.ts'

/** A real Redis and topics in memory, in which keys are wrapped. */
export const { redis } = await startRedis()
/** Redis has all accounts that there are, as after a comparison by ledger. */
export const markComplete = () => redis.eval(MARK_COMPARED_LUA, 1, ACCOUNTS_RUN_KEY)
await markComplete()
export const codec = createCodec(localSource())
export const bus = createMemoryBus()
export const producer = bus.producer('keys')
export const organizations = createOrganizations(redis)
export const keyStore = new OrganizationKeyStore(redis)
/** What commands of operators have. */
export const commands = connectAllKeys(redis, rootKeysIn(ROOT_KEY_SETTINGS))

const read: ReadTopic = async (topic, onMessages) => { await onMessages(bus.messages(topic)) }
/** What sends keys of organizations to their topic. */
const sending = { codec, accountsProducer: producer }

/** Ships accounts and new keys of organizations, as ledger does. */
export const ship = () => shipAccounts({ ...sending, redis }, new AbortController().signal)

/** Restores keys of organizations and accounts from their topics, as ledger does. */
export const restore = () => restoreAccounts({
  ...sending,
  redis,
  reader: { read } as never,
  log: { warn: () => {} },
  metrics: { count: () => {} },
}, new AbortController().signal)

/** What ClickHouse has of the data keys, in memory. */
export const copied: CopiedKey[] = []
const keep = (isKept: (key: CopiedKey) => boolean) => {
  copied.splice(0, copied.length, ...copied.filter(isKept))
}
/** The id of the key that wraps the first part of a stored data key. */
export const idOf = (wrapped: Buffer): string => wrappingKeyId(splitJobKey(wrapped).results)
const keyCopy: JobKeyCopy = {
  append: async keys => { copied.push(...keys) },
  find: async (_tenant, job) => copied.findLast(key => key.job === job)?.wrapped,
  all: async function * () { yield * [...copied] },
  rowsOf: async (_tenant, jobs) => copied.map(({ job }) => job).filter(job => jobs.includes(job)),
  erase: async (_tenant, jobs) => keep(({ job }) => !jobs.includes(job)),
  keepWrappedBy: async (tenants, id) => {
    const isFresh = ({ wrapped }: CopiedKey) => idOf(wrapped) === id
    const fresh = new Set(copied.filter(isFresh).map(({ job }) => job))
    keep(key => !tenants.includes(key.tenant) || !fresh.has(key.job) || isFresh(key))
  },
}

/** `keys rotate`. */
export const rotate = async (orgId: string) =>
  commands.rotate(orgId, await copiesInTopic({ read }, orgId))

export const stores = { redis, codec, producer, read, keyCopy }
