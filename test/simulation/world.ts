import type { Redis } from 'ioredis'
import { createHash, type Hash } from 'node:crypto'
import { OUTCOMES_CHANNEL } from '../../services/jobs/redis-keys.ts'
import { replaceGlobals } from './globals.ts'
import { Loop } from './loop.ts'
import { commandOf, openRedisLine, type RedisLine } from './redis-line.ts'
import type { Reply } from './replies.ts'
import {
  clockCommand, createScripts, settle, SimulatedRedis, type Asked,
} from './simulated-redis.ts'

/** Unix sockets of two Redis that serve nobody else. */
export type Sockets = { readonly state: string, readonly cache: string }

/** Two real Redis, and a loop in which the seed decides when each of their commands is executed. */
export type World = {
  /** Runs an action and all it starts; the digest is of every command, its moment and order. */
  readonly run: <T>(seed: number, action: () => Promise<T>) => Promise<T>
  /** A connection of its own to the Redis with the state, or with the cache. */
  readonly connect: (server: keyof Sockets, asker: string) => Redis
  /** A connection that listens to channels. */
  readonly subscriber: () => Redis
  /** Digest of all commands of the last run, in their order, and of their moments. */
  readonly trace: () => string
  readonly close: () => void
}

type Listener = (channel: string, text: string) => void

/** Opens the world of a process, whose clock, timers and chance belong to it from now on. */
export async function openWorld (sockets: Sockets): Promise<World> {
  const published: [string, string][] = []
  const listeners = new Set<Listener>()
  const ears = await openRedisLine(sockets.state, (...message) => published.push(message))
  await ears.exchange([commandOf('SUBSCRIBE', OUTCOMES_CHANNEL)])
  const lines = {
    state: await openRedisLine(sockets.state), cache: await openRedisLine(sockets.cache),
  }
  const scripts = createScripts()
  const clients = new Map<string, SimulatedRedis>()
  let trace = createHash('sha1')
  /** What a script publishes is heard after its own answer, and before anything else happens. */
  const heard = async (batch: readonly Asked[]): Promise<readonly (() => void)[]> => {
    if (!batch.some(({ command }) => scripts.publishes(command))) return []
    await ears.exchange([commandOf('PING')])
    return published.splice(0).map(message => () => {
      for (const listener of listeners) listener(...message)
    })
  }
  const loop = new Loop<Asked>(async (batch, nowMs) => {
    note(trace, batch, nowMs)
    const replies = new Map<Asked, Reply>()
    for (const line of Object.values(lines)) {
      const asked = batch.filter(one => one.line === line)
      if (asked.length > 0) await exchange(line, asked, { nowMs, scripts, replies })
    }
    const answers = batch.map(one => () => settle(one, replies.get(one) ?? null))
    return [...answers, ...await heard(batch)]
  })
  replaceGlobals(loop)
  return {
    run: async (seed, action) => {
      scripts.forget()
      listeners.clear()
      trace = createHash('sha1')
      return await loop.run(seed, action)
    },
    connect: (server, who) => {
      const asker = `${server} ${who}`
      const known = clients.get(asker) ??
        new SimulatedRedis({ line: lines[server], asker, scripts, ask: loop.ask })
      clients.set(asker, known)
      return known
    },
    subscriber: () => listenerOn(listeners),
    trace: () => trace.copy().digest('hex'),
    close: () => { for (const line of [ears, ...Object.values(lines)]) line.close() },
  }
}

function note (trace: Hash, batch: readonly Asked[], nowMs: number): void {
  for (const { asker, command } of batch) {
    trace.update(`${nowMs} ${asker} ${command.name} `)
    for (const word of command.args) trace.update(word)
  }
}

type Exchange = {
  readonly nowMs: number
  readonly scripts: ReturnType<typeof createScripts>
  readonly replies: Map<Asked, Reply>
}

/** Scripts read the loop's clock, which a server that lost everything has lost as well. */
async function exchange (
  line: RedisLine, asked: readonly Asked[], { nowMs, scripts, replies }: Exchange
): Promise<void> {
  await scripts.load(line)
  const commands: (string | Buffer)[] = [clockCommand(nowMs)]
  const places: number[] = []
  for (const { command } of asked) {
    places.push(commands.length)
    commands.push(command.toWritable())
    if (command.name.startsWith('flush')) commands.push(clockCommand(nowMs))
  }
  const answers = await line.exchange(commands)
  for (const [index, one] of asked.entries()) {
    replies.set(one, answers[places[index] ?? 0] ?? null)
  }
}

/** As much of a subscribed connection as is made use of. */
function listenerOn (listeners: Set<Listener>): Redis {
  const subscriber = {
    on: (event: string, listener: Listener) => {
      if (event === 'message') listeners.add(listener)
    },
    subscribe: async () => {},
    disconnect: () => {},
  }
  return subscriber as unknown as Redis
}
