import { createConnection } from 'node:net'
import { once } from 'node:events'
import { createReplyReader, type Reply } from './replies.ts'

/** A connection to Redis on which whole batches of commands go out and their answers come back. */
export type RedisLine = {
  /** The answers to commands in Redis' own form, in their order. */
  readonly exchange: (commands: readonly (string | Buffer)[]) => Promise<readonly Reply[]>
  readonly close: () => void
}

/** Connects to the unix socket; `onMessage` receives the messages of its channels. */
export async function openRedisLine (
  path: string, onMessage: (channel: string, text: string) => void = () => {}
): Promise<RedisLine> {
  const socket = createConnection(path)
  await once(socket, 'connect')
  let missing = 0
  let replies: Reply[] = []
  let done = () => {}
  socket.on('data', createReplyReader(reply => {
    if (Array.isArray(reply) && String(reply[0]) === 'message') {
      return onMessage(String(reply[1]), String(reply[2]))
    }
    replies.push(reply)
    if (replies.length === missing) done()
  }))
  const exchange: RedisLine['exchange'] = async commands => {
    replies = []
    missing = commands.length
    const answered = new Promise<void>(resolve => { done = resolve })
    socket.cork()
    for (const command of commands) socket.write(command)
    socket.uncork()
    await answered
    return replies
  }
  return { exchange, close: () => { socket.destroy() } }
}

/** A command of texts and bytes. */
export function wordsOf (...words: readonly (string | Buffer)[]): Buffer {
  return Buffer.concat([Buffer.from(`*${words.length}\r\n`), ...words.flatMap(word =>
    [Buffer.from(`$${Buffer.byteLength(word)}\r\n`), Buffer.from(word), Buffer.from('\r\n')])])
}

/** A command as Redis reads it. */
export function commandOf (...words: readonly string[]): string {
  return [`*${words.length}`, ...words.flatMap(word => [`$${Buffer.byteLength(word)}`, word]), '']
    .join('\r\n')
}
