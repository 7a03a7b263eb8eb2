import { readdirSync, statSync, truncateSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { tenantOf } from '../../../services/accounts/tenant.ts'
import { createOutbox } from '../../../services/money/wallet.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { connectRedis, type RedisClient } from '../../../services/runtime/platform/redis.ts'
import { emptyFolder } from '../../support/folder.ts'
import type { Fault, Injected, Scene } from '../fault.ts'
import { poll } from '../poll.ts'

const RECOVER_MS = 15_000
const WITHIN_MS = 60_000

const tenantOfScene = ({ orgId }: Scene) => tenantOf(orgId, 'live')
const filesOf = ({ environment }: Scene) => `${environment.stack.dataDir}/redis-state`

/** Asks the state Redis again and again, past an outage, until the answer is as expected. */
async function untilRedis<T> (
  { environment }: Scene, read: (redis: RedisClient) => Promise<T | undefined>
): Promise<T | undefined> {
  const redis = await connectRedis(environment.stack.env['REDIS_STATE_URL'] ?? '')
  try {
    return await poll(() => read(redis).catch(() => undefined), WITHIN_MS)
  } finally {
    redis.disconnect()
  }
}

/** Resolves when the movements there are have left Redis for the journal. */
async function untilShipped (scene: Scene): Promise<void> {
  const tenant = tenantOfScene(scene)
  let waiting: readonly number[] | undefined
  await untilRedis(scene, async redis => {
    const there = (await createOutbox(redis).pending(tenant)).map(({ seq }) => seq)
    waiting ??= there
    return waiting.some(seq => there.includes(seq)) ? undefined : true
  })
}

type Moments = { readonly letInMs: number, readonly movedMs: number }

/** When the tenant is unlocked, and when its journal has one more entry. */
async function movedAgain (scene: Scene): Promise<Moments> {
  const { wallet } = moneyKeys(tenantOfScene(scene))
  let first: { readonly seq: number, readonly letInMs: number } | undefined
  const found = await untilRedis(scene, async redis => {
    const [run, seq, server] = await Promise.all(
      [redis.hget(wallet, 'run'), redis.hget(wallet, 'seq'), redis.info('server')])
    if (run === null || !server.includes(`run_id:${run}`)) return undefined
    first ??= { seq: Number(seq), letInMs: Date.now() }
    const { letInMs } = first
    return Number(seq) > first.seq ? { letInMs, movedMs: Date.now() } : undefined
  })
  return found ?? { letInMs: Infinity, movedMs: Infinity }
}

/** Redis is killed, and comes back with what `change` leaves of its files. */
async function restart (scene: Scene, change: (files: string) => void): Promise<void> {
  const part = scene.environment.stack.part('redis-state')
  await part.down()
  change(filesOf(scene))
  await part.up()
}

/** Loses what `damage` takes from Redis; returns the time until money is written again. */
async function lose (scene: Scene, damage: () => Promise<void>): Promise<number> {
  const { load, log, say } = scene
  const atMs = Date.now()
  await damage()
  const moving = movedAgain(scene)
  // Those who were asking when Redis was lost wait for an answer until their time is over.
  const [{ letInMs, movedMs }] = await Promise.all([moving, log.post(load.request(20))])
  say(`unlocked after ${letInMs - atMs} ms, the first entry was written after ${movedMs - atMs} ms`)
  return movedMs - atMs
}

async function outputOf (scene: Scene, recoveryMs: readonly number[]): Promise<Injected> {
  const { environment, load } = scene
  await load.untilEnded(3)
  const repaired = await environment.services.metric('ledger-1', 'recovery_actions_total') ?? 0
  const { wallet } = moneyKeys(tenantOfScene(scene))
  const frozen = await untilRedis(scene, async redis => await redis.hget(wallet, 'frozen') ?? '')
  return {
    injected: recoveryMs.length,
    recoveryMs,
    note: `${repaired} recovery actions`,
    breaches: frozen === '' ? [] : [`the wallet is frozen: ${frozen}`],
  }
}

/** The files Redis appends to, with their sizes. */
function sizesOf (files: string): ReadonlyMap<string, number> {
  const folder = `${files}/appendonlydir`
  const names = readdirSync(folder).filter(name => name.endsWith('.incr.aof'))
  return new Map(names.map(name => [`${folder}/${name}`, statSync(`${folder}/${name}`).size]))
}

const lostTail: Fault = {
  name: 'redis-lost-tail',
  kind: 'store',
  about: 'the state Redis is killed and its file has lost all that was written in the last second',
  recoverWithinMs: RECOVER_MS,
  inject: async scene => {
    const { load, full } = scene
    await untilShipped(scene)
    const recoveryMs: number[] = []
    for (let round = 0; round < (full ? 3 : 1); round++) {
      await load.untilEnded(full ? 4 : 1)
      const sizes = sizesOf(filesOf(scene))
      await sleep(1_000)
      recoveryMs.push(await lose(scene, () => restart(scene, () => {
        for (const [file, size] of sizes) truncateSync(file, size)
      })))
    }
    return await outputOf(scene, recoveryMs)
  },
}

const allLost: Fault = {
  name: 'redis-emptied',
  kind: 'store',
  about: 'the state Redis has lost all of its files',
  recoverWithinMs: 2 * RECOVER_MS,
  inject: async scene => {
    await scene.load.untilEnded(scene.full ? 8 : 2)
    await untilShipped(scene)
    return await outputOf(scene, [await lose(scene, () => restart(scene, emptyFolder))])
  },
}

/** Redis comes back, and not with all that it had. */
export const lostRedis: readonly Fault[] = [lostTail, allLost]
