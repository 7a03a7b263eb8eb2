import { Writable } from 'node:stream'
import { expect } from 'vitest'
import { connectDeps } from '../../services/engine/deps.ts'
import { createLog } from '../../services/platform/log.ts'
import { createMetrics } from '../../services/platform/metrics.ts'
import { connectRedis } from '../../services/platform/redis.ts'
import { eventually } from './eventually.ts'

export type StoreAddresses = {
  readonly REDIS_STATE_URL: string
  readonly REDIS_CACHE_URL: string
}

export type Told = {
  /** What the state Redis said at first. */
  readonly answer: string
  /** The messages of the log. */
  readonly told: readonly unknown[]
  /** What it said once it was mended; undefined when it was not. */
  readonly later: string | undefined
}

/** What a service would log of stores that refuse it, and hear from one of them that is mended. */
export async function toldOf (
  addresses: StoreAddresses, mend?: () => Promise<unknown>
): Promise<Told> {
  const told: unknown[] = []
  const destination = new Writable({
    write: (line, _encoding, done) => {
      told.push((JSON.parse(String(line)) as { msg: unknown }).msg)
      done()
    },
  })
  const closers: (() => unknown)[] = []
  const { state } = await connectDeps(addresses, {
    name: 'sample',
    log: createLog('sample', { destination }),
    metrics: createMetrics(),
    fatal: () => {},
    onStop: close => { closers.push(close) },
  }, ['state', 'cache'])
  try {
    const answer = await state.ping().catch((error: Error) => error.message)
    await eventually(() => expect(told.length).toBeGreaterThan(1))
    await mend?.()
    const later = mend && await eventually(() => state.ping())
    return { answer, told: told.sort(), later }
  } finally {
    for (const close of closers) await close()
  }
}

/** Lets a user of a Redis sign in with one more password while work is done. */
export async function withPassword (
  url: string, password: string, work: (allow: () => Promise<unknown>) => Promise<void>
): Promise<void> {
  const redis = connectRedis(url)
  const { username } = new URL(url)
  try {
    await work(() => redis.call('ACL', 'SETUSER', username, `>${password}`))
    await redis.call('ACL', 'SETUSER', username, `<${password}`)
  } finally {
    redis.disconnect()
  }
}
