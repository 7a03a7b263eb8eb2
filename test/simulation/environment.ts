import type { Redis } from 'ioredis'
import { OUTCOMES_CHANNEL } from '../../services/jobs/redis-keys.ts'
import { resetScheduler } from '../../services/runtime/platform/event-loop.ts'
import { LOCKED_TENANTS_CHANNEL } from '../../services/money/redis-keys.ts'
import { openChannels } from './channels.ts'
import { replaceGlobals } from './globals.ts'
import { Loop } from './loop.ts'
import { openRedisLine } from './redis-line.ts'
import { serve, type Servers } from './servers.ts'
import { createScripts, SimulatedRedis, type PendingCommand } from './simulated-redis.ts'
import { createStateLosses, type StateLosses } from './state-loss.ts'
import { createTrace } from './trace.ts'

/** Unix sockets of two Redis without other clients. */
export type Sockets = { readonly state: string, readonly cache: string }

/** Two real Redis, and a loop in which the seed decides when each of their commands is executed. */
export type Environment = {
  /** Runs an action and all it starts; the digest is of every command, its moment and order. */
  readonly run: <T>(seed: number, action: () => Promise<T>) => Promise<T>
  /** A connection of its own to the Redis with the state, or with the cache. */
  readonly connect: (server: keyof Sockets, client: string) => Redis
  /** A connection that listens to channels. */
  readonly subscriber: () => Redis
  /** The ends of the Redis with the state; none comes that was not planned in the run. */
  readonly losses: StateLosses
  /** Digest of all commands of the last run, in their order, and of their moments. */
  readonly trace: () => string
  readonly close: () => void
}

/** Opens the environment of a process; it replaces the clock, the timers and Math.random. */
export async function openEnvironment (sockets: Sockets): Promise<Environment> {
  const servers = await openServers(sockets)
  const { channels, losses, trace, lines } = servers
  const loop = loopOver(servers)
  replaceGlobals(loop)
  return {
    run: async (seed, action) => {
      begin(servers)
      resetScheduler()
      return await loop.run(seed, action)
    },
    connect: connector(servers, loop.ask),
    subscriber: channels.subscriber,
    losses,
    trace: trace.text,
    close: () => { for (const one of [channels, ...Object.values(lines)]) one.close() },
  }
}

async function openServers ({ state, cache }: Sockets): Promise<Servers> {
  const channels = await openChannels(state, [OUTCOMES_CHANNEL, LOCKED_TENANTS_CHANNEL])
  const lines = { state: await openRedisLine(state), cache: await openRedisLine(cache) }
  const losses = createStateLosses(lines.state)
  return { lines, channels, losses, scripts: createScripts(), trace: createTrace() }
}

function loopOver (servers: Servers): Loop<PendingCommand> {
  const loop: Loop<PendingCommand> = new Loop<PendingCommand>(async (batch, nowMs) => {
    const { answers, again } = await serve(servers, batch, nowMs)
    loop.askAgain(again)
    return answers
  })
  return loop
}

function begin ({ scripts, channels, losses, trace }: Servers): void {
  scripts.forget()
  channels.clear()
  losses.begin()
  trace.begin()
}

/** A client that connects again gets its existing connection. */
function connector (
  { lines, scripts }: Servers, ask: Loop<PendingCommand>['ask']
): Environment['connect'] {
  const clients = new Map<string, SimulatedRedis>()
  return (server, who) => {
    const client = `${server} ${who}`
    const known = clients.get(client) ??
      new SimulatedRedis({ line: lines[server], client, scripts, ask })
    clients.set(client, known)
    return known
  }
}
