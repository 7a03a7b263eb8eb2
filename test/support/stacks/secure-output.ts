import { Writable } from 'node:stream'
import { expect } from 'vitest'
import { connectDeps } from '../../../services/runtime/engine/connections.ts'
import { createLog } from '../../../services/runtime/platform/log.ts'
import { createMetrics } from '../../../services/runtime/platform/metrics.ts'
import { openRedis } from '../redis/open-redis.ts'
import { eventually } from '../eventually.ts'

export type StoreAddresses = {
  readonly REDIS_STATE_URL: string
  readonly REDIS_CACHE_URL: string
}

export type StoreOutput = {
  /** The first answer of the state Redis. */
  readonly answer: string
  /** The messages of the log. */
  readonly output: readonly unknown[]
  /** Its answer once it was repaired; undefined when it was not. */
  readonly later: string | undefined
}

/** What a service logs about stores that reject it, and the answer of a repaired one. */
export async function storeOutput (
  addresses: StoreAddresses, repair?: () => Promise<unknown>
): Promise<StoreOutput> {
  const output: unknown[] = []
  const destination = new Writable({
    write: (line, _encoding, done) => {
      output.push((JSON.parse(String(line)) as { msg: unknown }).msg)
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
    await eventually(() => expect(output.length).toBeGreaterThan(1))
    await repair?.()
    const later = repair && await eventually(() => state.ping())
    return { answer, output: output.sort(), later }
  } finally {
    for (const close of closers) await close()
  }
}

/** Lets a user of a Redis sign in with one more password while work is done. */
export async function withPassword (
  url: string, password: string, work: (allow: () => Promise<unknown>) => Promise<void>
): Promise<void> {
  const redis = openRedis(url)
  const { username } = new URL(url)
  try {
    await work(() => redis.call('ACL', 'SETUSER', username, `>${password}`))
    await redis.call('ACL', 'SETUSER', username, `<${password}`)
  } finally {
    redis.disconnect()
  }
}
