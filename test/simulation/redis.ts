import { Redis } from 'ioredis'
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createConnection } from 'node:net'
import type { Question } from './loop.ts'

/** An answer of Redis: texts are bytes, and a failure is a value that is an Error. */
export type Reply = Buffer | number | null | Error | readonly Reply[]

const CR = 13

/** Reads the answers in a stream of bytes (RESP 2), each as soon as all of it is there. */
function createReplyReader (found: (reply: Reply) => void): (bytes: Buffer) => void {
  let unread: Buffer = Buffer.alloc(0)
  return bytes => {
    unread = unread.length === 0 ? bytes : Buffer.concat([unread, bytes])
    let at = 0
    for (;;) {
      const read = readOne(unread, at)
      if (read === undefined) break
      at = read.end
      found(read.reply)
    }
    unread = unread.subarray(at)
  }
}

type Read = { readonly reply: Reply, readonly end: number }

/** The answer that begins here; undefined while its end has not come. */
function readOne (bytes: Buffer, at: number): Read | undefined {
  const lineEnd = bytes.indexOf(CR, at)
  if (lineEnd < 0 || lineEnd + 2 > bytes.length) return undefined
  const end = lineEnd + 2
  const kind = String.fromCharCode(bytes[at] ?? 0)
  const line = bytes.subarray(at + 1, lineEnd)
  if (kind === '+') return { reply: line, end }
  if (kind === ':') return { reply: Number(line), end }
  if (kind === '-') {
    return { reply: Object.assign(new Error(String(line)), { name: 'ReplyError' }), end }
  }
  const size = Number(line)
  if (size < 0) return { reply: null, end }
  if (kind === '*') return readList(bytes, end, size)
  if (end + size + 2 > bytes.length) return undefined
  return { reply: bytes.subarray(end, end + size), end: end + size + 2 }
}

function readList (bytes: Buffer, at: number, size: number): Read | undefined {
  const list: Reply[] = []
  let end = at
  for (let index = 0; index < size; index++) {
    const read = readOne(bytes, end)
    if (read === undefined) return undefined
    list.push(read.reply)
    end = read.end
  }
  return { reply: list, end }
}

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

type Listener = (channel: string, text: string) => void

/** Delivers what the scripts of a Redis publish to subscribers when the environment decides. */
export type Channels = {
  /** The callbacks that deliver what was published and not yet delivered. */
  readonly heard: () => Promise<readonly (() => void)[]>
  /** Drops what was published and not yet delivered. */
  readonly miss: () => Promise<void>
  /** A connection that listens. */
  readonly subscriber: () => Redis
  /** Removes all listeners. */
  readonly clear: () => void
  readonly close: () => void
}

/** Listens to these channels of the Redis with this unix socket. */
export async function openChannels (
  socket: string, names: readonly string[]
): Promise<Channels> {
  const published: Parameters<Listener>[] = []
  const listeners = new Set<Listener>()
  const line = await openRedisLine(socket, (...message) => published.push(message))
  for (const name of names) await line.exchange([commandOf('SUBSCRIBE', name)])
  /** An answer on the same connection comes after all that was published before. */
  const take = async () => {
    await line.exchange([commandOf('PING')])
    return published.splice(0)
  }
  return {
    heard: async () => (await take()).map(message => () => {
      for (const listener of listeners) listener(...message)
    }),
    miss: async () => { await take() },
    subscriber: () => listenerOn(listeners),
    clear: () => { listeners.clear() },
    close: line.close,
  }
}

/** The methods of a subscribed connection that are used. */
function listenerOn (listeners: Set<Listener>): Redis {
  const channels = new Set<string>()
  const subscriber = {
    on: (event: string, listener: Listener) => {
      if (event !== 'message') return
      listeners.add((channel, text) => { if (channels.has(channel)) listener(channel, text) })
    },
    subscribe: async (channel: string) => { channels.add(channel) },
    disconnect: () => {},
  }
  return subscriber as unknown as Redis
}

/** The command object of ioredis: arguments ready to be sent, a promise for the caller. */
type Command = {
  name: string
  readonly args: (string | Buffer)[]
  readonly promise: Promise<unknown>
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
  readonly toWritable: () => string | Buffer
}

/** A command that waits for its turn. */
export type PendingCommand = Question & { readonly command: Command, readonly line: RedisLine }

export type ClientOptions = {
  readonly line: RedisLine
  readonly scripts: Scripts
  /** The client of these commands; only commands of one client keep their order. */
  readonly client: string
  readonly ask: (pending: PendingCommand) => void
}

/** The product's Redis client, but that each command waits for its turn in the simulation. */
export class SimulatedRedis extends Redis {
  readonly #options: ClientOptions

  constructor (options: ClientOptions) {
    super({ lazyConnect: true })
    this.#options = options
  }

  override sendCommand (command: unknown): Promise<unknown> {
    const { ask, ...pending } = this.#options
    const one = command as Command
    if (pending.scripts.prepare(one)) ask({ ...pending, command: one })
    return one.promise
  }
}

export type Scripts = {
  /** False when the command was refused at once, as Redis refuses a script it has not seen. */
  readonly prepare: (command: Command) => boolean
  /** Loads every script that later commands call. */
  readonly load: (line: RedisLine) => Promise<void>
  /** A new server, which has seen no script. */
  readonly forget: () => void
  readonly publishes: (command: Command) => boolean
}

const CLOCK = 'simulated:clock'
const TIME = /redis\.call\('TIME'\)/g
const SERVER = /redis\.call\('INFO', 'server'\)/g

/** The command that sets what scripts read in place of `TIME` and of `INFO`. */
export const clockCommand = (nowMs: number, runId: string): string => commandOf(
  'HSET', CLOCK, 's', String(Math.floor(nowMs / 1_000)), 'us', String(nowMs % 1_000 * 1_000),
  'info', `run_id:${runId}\r\nserver_time_usec:${nowMs}000`)

const digestOf = (text: string) => createHash('sha1').update(text).digest('hex')

type Known = { readonly text: string, readonly digest: string, readonly publishes: boolean }

/** Scripts as the product has them, but that `TIME` and `INFO` are the simulation's. */
export function createScripts (): Scripts {
  const known = new Map<string, Known>()
  const byDigest = new Map<string, Known>()
  const loaded = new WeakMap<RedisLine, Set<string>>()
  let seen = new Set<string>()
  const learn = (source: string): Known => {
    const text = source.replaceAll(TIME, `redis.call('HMGET', '${CLOCK}', 's', 'us')`)
      .replaceAll(SERVER, `redis.call('HGET', '${CLOCK}', 'info')`)
    if (text.includes("'INFO'")) throw new Error('a script asks for its server in another way')
    if (text.includes("'TIME'")) throw new Error('a script asks for the time in another way')
    const one = { text, digest: digestOf(text), publishes: text.includes("'PUBLISH'") }
    known.set(digestOf(source), one)
    byDigest.set(one.digest, one)
    return one
  }
  const prepare = (command: Command): boolean => {
    const name = command.name.toUpperCase()
    if (name !== 'EVAL' && name !== 'EVALSHA') return true
    const first = String(command.args[0])
    const digest = name === 'EVAL' ? digestOf(first) : first
    if (name === 'EVALSHA' && !seen.has(digest)) {
      command.reject(new Error('NOSCRIPT No matching script. Please use EVAL.'))
      return false
    }
    seen.add(digest)
    command.name = 'EVALSHA'
    command.args[0] = (known.get(digest) ?? learn(first)).digest
    return true
  }
  return {
    prepare,
    load: async line => {
      const there = loaded.get(line) ?? new Set<string>()
      loaded.set(line, there)
      const missing = [...known.values()].filter(({ digest }) => !there.has(digest))
      if (missing.length === 0) return
      await line.exchange(missing.map(({ text }) => commandOf('SCRIPT', 'LOAD', text)))
      for (const { digest } of missing) there.add(digest)
    },
    forget: () => { seen = new Set() },
    publishes: ({ name, args }) => name === 'publish' ||
      (byDigest.get(String(args[0]))?.publishes ?? false),
  }
}

/** Gives the caller its answer, or has the call fail; what has no order is put in one. */
export function settle ({ command }: PendingCommand, reply: Reply): void {
  if (reply instanceof Error) return command.reject(reply)
  command.resolve(UNORDERED.has(command.name) ? [...reply as Buffer[]].sort(Buffer.compare) : reply)
}

/** The connection has ended before the answer came, so what was executed is unknown. */
export function fail ({ command }: PendingCommand): void {
  command.reject(new Error('Connection is closed.'))
}

/** Redis answers these in an order that is another in each of its lives. */
const UNORDERED: ReadonlySet<string> = new Set(['smembers', 'keys'])
