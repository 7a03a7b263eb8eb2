import type { Redis } from 'ioredis'
import { commandOf, openRedisLine } from './redis-line.ts'

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
