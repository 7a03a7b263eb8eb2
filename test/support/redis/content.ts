import type { Redis } from 'ioredis'
import { isDeepStrictEqual } from 'node:util'
import { pendingSeq } from '../../../services/money/wallet.ts'

/** All keys as Redis would write them to a file, with the time each has left. */
export type Snapshot = readonly {
  readonly key: string, readonly leftMs: number, readonly value: Buffer,
}[]

/** Takes all there is. */
export async function snapshotOf (redis: Redis): Promise<Snapshot> {
  const keys = (await redis.keys('*')).toSorted()
  return await Promise.all(keys.map(async key => ({
    key, leftMs: Math.max(await redis.pttl(key), 0), value: (await redis.dumpBuffer(key))!,
  })))
}

/**
 * Resets Redis to that content and nothing else, as after a start from an old file: the run
 * that tenants were unlocked for is over.
 */
export async function putBack (redis: Redis, snapshot: Snapshot): Promise<void> {
  await redis.flushall()
  for (const { key, leftMs, value } of snapshot) await redis.restore(key, leftMs, value)
  await endRun(redis)
}

/** What a restart does to recovery guards and claims: their run is not the current one. */
export async function endRun (redis: Redis): Promise<void> {
  const ended = 'f'.repeat(40)
  for (const wallet of await redis.keys('w:*')) await redis.hset(wallet, 'run', ended)
  for (const job of await redis.keys('job:*')) await redis.hset(job, 'claimedIn', ended)
}

/** Marks of ledgers, which are of one run. */
const PASSING = new RegExp('^(recounts:|(run|until):|\\{global\\}:' +
  '(recounting|leader|fence|head-exported|failed-takeovers|erased-))')
/** Moments of what was done again, the run of the server in which it was, and recovery guards. */
const PASSING_FIELDS: ReadonlySet<string> = new Set(
  ['updatedAtMs', 'endedAtMs', 'claimedIn', 'run', 'fence', 'frozen', 'trust'])

/** All that is to survive, as values to compare: moments and orders of sets left out. */
export async function contentOf (redis: Redis): Promise<Readonly<Record<string, unknown>>> {
  const keys = (await redis.keys('*')).filter(key => !PASSING.test(key)).toSorted()
  const content = await Promise.all(keys.map(async key =>
    [key, await valueOf(redis, key)] as const))
  // A wallet in which money never moved may be there or not.
  return Object.fromEntries(content.filter(([, value]) => !isDeepStrictEqual(value, {})))
}

async function valueOf (redis: Redis, key: string): Promise<unknown> {
  switch (await redis.type(key)) {
    case 'string': return (await redis.getBuffer(key))?.toString('hex')
    case 'set': return (await redis.smembers(key)).toSorted()
    case 'list': return await redis.lrange(key, 0, -1)
    case 'zset': return (await redis.zrange(key, '0', '-1')).toSorted()
    default: return hashOf(await redis.hgetallBuffer(key))
  }
}

function hashOf (found: Readonly<Record<string, Buffer>>) {
  // No slot was ever taken, or none is any more.
  const fields = Object.entries(found).filter(([name, value]) =>
    !PASSING_FIELDS.has(name) && !(name === 'slots' && String(value) === '0'))
  return Object.fromEntries(fields.toSorted(([a], [b]) => a < b ? -1 : 1).map(([name, value]) =>
    [name, name.startsWith('open:') ? '' : contentOfField(name, value)]))
}

const contentOfField = (name: string, value: Buffer) =>
  pendingSeq(name) === undefined ? value.toString('latin1') : timeless(String(value))
const timeless = (entry: string) => ({ ...JSON.parse(entry) as object, at: '' })
