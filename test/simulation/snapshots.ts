import type { Journal } from '../../schemas/types.ts'
import { entryOf, pendingSeq } from '../../services/money/outbox.ts'
import { commandOf, wordsOf, type RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'

/** All that a Redis holds, as a file of it would; `left` is the time to live in ms, or below 0. */
export type Snapshot =
  readonly { readonly key: Buffer, readonly left: number, readonly value: Buffer }[]

/** All keys as a file would have them; a key that has just expired is none. */
export async function takeSnapshot (line: RedisLine): Promise<Snapshot> {
  const keys = await keysLike(line, '*')
  const values = await exchange(line, keys.map(key => wordsOf('DUMP', key)))
  const left = await exchange(line, keys.map(key => wordsOf('PTTL', key)))
  return keys.map((key, index) => ({
    key, left: Number(left[index]), value: values[index] as Buffer,
  })).filter(({ value }) => value !== null)
}

/** From now on the Redis holds what the file says, and nothing else. */
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

/** Nothing is to be waited for where nothing is asked. */
async function exchange (
  line: RedisLine, commands: readonly Buffer[]
): Promise<readonly Reply[]> {
  return commands.length === 0 ? [] : await line.exchange(commands)
}
