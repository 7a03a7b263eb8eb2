import { createHash } from 'node:crypto'
import { Redis } from 'ioredis'
import type { Question } from './loop.ts'
import { commandOf, type RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'

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
