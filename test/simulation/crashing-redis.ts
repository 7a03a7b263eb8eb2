import type { Redis } from 'ioredis'
import type { Chaos } from './chaos.ts'

export type Death = {
  /** Called before each command. */
  readonly dies: () => boolean
  readonly chaos: Chaos
  readonly onDeath: () => void
}

/** A connection whose process crashes at any command, before or after its execution. */
export function crashingRedis (redis: Redis, { dies, chaos, onDeath }: Death): Redis {
  let isDead = false
  const send = (command: never) => redis.sendCommand(command) as Promise<unknown>
  const connection = Object.create(redis) as Redis
  connection.sendCommand = (command: never): Promise<unknown> => {
    if (!isDead && !dies()) return send(command)
    if (!isDead && chaos.happens(0.5)) send(command).catch(() => {})
    if (!isDead) onDeath()
    isDead = true
    return Promise.reject(new Error('this ledger is dead'))
  }
  return connection
}
