import type { Redis } from 'ioredis'
import type { Account } from '../../schemas/types.ts'
import {
  ACCOUNTS_KEY, ACCOUNTS_OUTBOX_KEY, ACCOUNTS_RUN_KEY, listAccount,
} from '../accounts/records.ts'
import type { OutgoingMessage, Producer } from '../kafka/bus.ts'
import type { TopicReader } from '../kafka/topic-reader.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { script } from '../platform/redis.ts'
import type { Codec } from '../kafka/registry.ts'
import { messageKey, topicName } from '../platform/topics.ts'

export type AccountsDeps = {
  readonly redis: Redis
  readonly reader: TopicReader
  readonly codec: Pick<Codec, 'decode' | 'encode'>
  readonly accountsProducer: Pick<Producer, 'send'>
  readonly log: Pick<Log, 'info' | 'warn'>
  readonly metrics: Pick<Metrics, 'count'>
}

const TOPIC = topicName('accounts')
const AT_ONCE = 200
/** Fields that are no change of an account: the topic does not have them. */
const OWN_FIELDS: ReadonlySet<string> = new Set(['revision', 'madeIn', 'lastUsedAt'])

/** ARGV: the revision that the topic has, then the fields of it. */
const RESTORE = `
local held = tonumber(redis.call('HGET', KEYS[1], 'revision') or '0')
local shipped = tonumber(ARGV[1])
if held <= shipped then
  redis.call('SREM', KEYS[3], KEYS[1])
end
if held >= shipped then
  return 0
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'revision', ARGV[1], unpack(ARGV, 2))
redis.call('SADD', KEYS[2], KEYS[1])
return 1`

/** Forgets a name whose record has this revision still, or is gone. */
const SETTLE = `
if (redis.call('HGET', KEYS[1], 'revision') or '0') == ARGV[1] then
  redis.call('SREM', KEYS[2], KEYS[1])
end`

/**
 * Brings the accounts in Redis to what the topic has of them, and marks all that the topic lacks to
 * be shipped; then they count in this run of the server. Of each name the highest revision is
 * right, wherever it is: an old file of Redis brings no revoked key back, and neither does an old
 * message that somebody sends again. Each step may be repeated.
 * @throws InfrastructureError when Redis or the topic cannot be read.
 */
export async function restoreAccounts (
  deps: AccountsDeps, run: string, signal: AbortSignal
): Promise<void> {
  const { redis, reader, codec, log, metrics } = deps
  const restore = script(redis, { name: 'restore-account', source: RESTORE, numberOfKeys: 3 })
  let restored = 0
  await redis.sunionstore(ACCOUNTS_OUTBOX_KEY, ACCOUNTS_OUTBOX_KEY, ACCOUNTS_KEY)
  await reader.read(TOPIC, async messages => {
    for (let from = 0; from < messages.length; from += AT_ONCE) {
      const values = messages.slice(from, from + AT_ONCE).flatMap(({ value }) => value ?? [])
      const written = await Promise.all(values.map(async bytes => {
        const { name, revision, fields } = await codec.decode('accounts', bytes) as Account
        const texts = fields.map(({ name: field, value }) => [field, value] as const)
        await listAccount(redis, { name, fields: Object.fromEntries(texts) })
        return await restore(
          [name, ACCOUNTS_KEY, ACCOUNTS_OUTBOX_KEY], [revision, ...texts.flat()]) as number
      }))
      restored += written.reduce((sum, one) => sum + one, 0)
    }
  }, { signal })
  await redis.set(ACCOUNTS_RUN_KEY, run)
  metrics.count('recovery_actions_total', { kind: 'account' }, restored)
  if (restored > 0) log.warn({ records: restored }, 'accounts were restored from their topic')
}

/**
 * Ships changed accounts to their topic. A name leaves the outbox only with the revision that was
 * shipped, so a change that is made meanwhile, or a crash, has it shipped once more.
 */
export async function shipAccounts (
  { redis, codec, accountsProducer }: AccountsDeps, signal: AbortSignal
): Promise<void> {
  const settle = script(redis, { name: 'settle-account', source: SETTLE, numberOfKeys: 2 })
  for (;;) {
    const names = await redis.srandmember(ACCOUNTS_OUTBOX_KEY, AT_ONCE)
    if (names.length === 0) return
    const accounts = await Promise.all(names.map(async name =>
      accountOf(name, await redis.hgetall(name))))
    const there = accounts.filter(({ revision }) => revision > 0)
    const messages = await Promise.all(there.map(async (value): Promise<OutgoingMessage> => ({
      topic: TOPIC,
      key: messageKey('accounts', value),
      value: await codec.encode('accounts-value', value),
      headers: {},
    })))
    if (messages.length > 0) await accountsProducer.send(messages, signal)
    for (const { name, revision } of accounts) {
      await settle([name, ACCOUNTS_OUTBOX_KEY], [revision])
    }
  }
}

function accountOf (name: string, stored: Readonly<Record<string, string>>): Account {
  const fields = Object.entries(stored).filter(([field]) => !OWN_FIELDS.has(field))
    .map(([field, value]) => ({ name: field, value }))
  return { name, revision: Number(stored['revision'] ?? 0), fields }
}
