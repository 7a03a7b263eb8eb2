import type { Journal } from '../../schemas/types.ts'
import { entryOf, pendingSeq } from '../../services/money/outbox.ts'
import { commandOf, wordsOf, type RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'

/** The content of a Redis, as in a file of it; `left` is the time to live in ms, or below 0. */
export type Snapshot =
  readonly { readonly key: Buffer, readonly left: number, readonly value: Buffer }[]

/** All keys as in a file, without keys that have just expired. */
export async function takeSnapshot (line: RedisLine): Promise<Snapshot> {
  const keys = await keysLike(line, '*')
  const values = await exchange(line, keys.map(key => wordsOf('DUMP', key)))
  const left = await exchange(line, keys.map(key => wordsOf('PTTL', key)))
  return keys.map((key, index) => ({
    key, left: Number(left[index]), value: values[index] as Buffer,
  })).filter(({ value }) => value !== null)
}

/** Replaces the content of the Redis by that of the file. */
export async function putSnapshot (line: RedisLine, snapshot: Snapshot): Promise<void> {
  await line.exchange([commandOf('FLUSHALL'), ...snapshot.map(({ key, left, value }) =>
    wordsOf('RESTORE', key, String(Math.max(left, 0)), value))])
}

/** The entries of every tenant that may not have come to the journal yet. */
export async function readOutboxes (line: RedisLine): Promise<readonly Journal[]> {
  const keys = await keysLike(line, 'w:*')
  const found = await exchange(line, keys.map(key => wordsOf('HGETALL', key)))
  return found.flatMap(fields => (fields as Buffer[]).flatMap((json, at, all) =>
    at % 2 === 1 && pendingSeq(String(all[at - 1])) !== undefined ? [entryOf(String(json))] : []))
}

async function keysLike (line: RedisLine, pattern: string): Promise<readonly Buffer[]> {
  const [keys] = await line.exchange([commandOf('KEYS', pattern)])
  return [...keys as Buffer[]].sort(Buffer.compare)
}

/** Without commands there is no reply to wait for. */
async function exchange (
  line: RedisLine, commands: readonly Buffer[]
): Promise<readonly Reply[]> {
  return commands.length === 0 ? [] : await line.exchange(commands)
}
