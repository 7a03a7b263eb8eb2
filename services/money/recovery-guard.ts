import type { Redis } from 'ioredis'
import { InfrastructureError } from '../platform/errors.ts'
import { script } from '../platform/redis.ts'
import { sleep } from '../platform/retry.ts'
import { GATE_LUA, joinLua } from './lua.ts'
import { LOCKED_TENANTS_CHANNEL, moneyKeys } from './redis-keys.ts'

/** Nothing moves until `ledger` has compared the tenant with the journal: wait and try again. */
export class RecoveringError extends InfrastructureError {
  constructor (tenant: string, cause: unknown) {
    super(`the money of ${tenant} is being compared with the journal`, { cause })
  }
}

/** The blocks of a job are being counted again after a loss of Redis: wait and try again. */
export class ReplayingError extends InfrastructureError {
  constructor (tenant: string, cause: unknown) {
    super(`blocks of jobs of ${tenant} are being counted again`, { cause })
  }
}

/** Something about the tenant's money cannot be explained: nothing moves until people thaw it. */
export class FrozenError extends Error {
  override readonly name = 'FrozenError'
}

/** Calls a script behind the gate of a tenant. */
export type GuardedScript = (
  tenant: string, keys: readonly string[], args: readonly (string | number | Buffer)[],
) => Promise<unknown>

type GatedOptions = {
  readonly name: string
  readonly source: string
  readonly numberOfKeys: number
  /** How long a call waits at the gate; `ledger` lets a tenant without a past in at once. */
  readonly patienceMs?: number
}

const PATIENCE_MS = 300
const FIRST_PAUSE_MS = 5
const MAX_PAUSE_MS = 200

/**
 * A script that begins with the gate. Its calls ask `ledger` for a tenant that is not let in, wait
 * for a moment, and then fail.
 * Calls throw RecoveringError while the gate is shut, FrozenError when the wallet is frozen.
 */
export function guardedScript (redis: Redis, options: GatedOptions): GuardedScript {
  const { patienceMs = PATIENCE_MS } = options
  const call = script(redis, options)
  return async (tenant, keys, args) => {
    for (let waitedMs = 0, pauseMs = FIRST_PAUSE_MS; ; pauseMs = longer(pauseMs)) {
      try {
        return await call(keys, args)
      } catch (error) {
        const shut = shutBy(tenant, error)
        if (!(shut instanceof RecoveringError) || waitedMs >= patienceMs) throw shut
      }
      const isHeard = waitedMs > 0 && pauseMs < MAX_PAUSE_MS
      if (!isHeard) await redis.publish(LOCKED_TENANTS_CHANNEL, tenant)
      await sleep(pauseMs)
      waitedMs += pauseMs
    }
  }
}

const longer = (pauseMs: number) => Math.min(pauseMs * 2, MAX_PAUSE_MS)

/** The first word of a reply says what it is, as with errors of Redis itself. */
function shutBy (tenant: string, error: unknown): unknown {
  const [word, ...rest] = error instanceof Error ? error.message.split(' ') : []
  if (word === 'RECOVERING') return new RecoveringError(tenant, error)
  if (word === 'REPLAYING') return new ReplayingError(tenant, error)
  if (word !== 'FROZEN') return error
  return new FrozenError(`the wallet of ${tenant} is frozen: ${rest.join(' ')}`, { cause: error })
}

/**
 * Lets in a tenant whose name was made a moment ago out of chance: there can be nothing of it in
 * the journal. Whoever has a wallet already is left as it is.
 */
export function createAdmission (redis: Redis): (tenant: string) => Promise<void> {
  const source = joinLua(GATE_LUA, new URL('./admit.lua', import.meta.url))
  const admit = script(redis, { name: 'admit', source, numberOfKeys: 1 })
  return async tenant => {
    await admit([moneyKeys(tenant).wallet], [])
  }
}

export type GuardState = {
  /** False until `ledger` has compared the tenant with the journal. */
  readonly isOpen: boolean
  /** Why nothing moves; empty when it does. */
  readonly frozen: string
}

/** What people do to the gate of a tenant, and what they see of it. */
export function createRecoveryGuards (redis: Redis) {
  return {
    standing: async (tenant: string): Promise<GuardState> => {
      const [run, frozen] = await redis.hmget(moneyKeys(tenant).wallet, 'run', 'frozen')
      return { isOpen: run !== null && run !== undefined, frozen: frozen ?? '' }
    },

    /**
     * Has `ledger` compare a frozen tenant once more; what cannot be explained freezes it again.
     * With `trustJournal` the journal is taken for right, whatever Redis says.
     */
    thaw: async (tenant: string, trustJournal: boolean): Promise<void> => {
      const { wallet } = moneyKeys(tenant)
      if (trustJournal) await redis.hset(wallet, { trust: 'journal' })
      await redis.hdel(wallet, 'run', 'frozen')
      await redis.publish(LOCKED_TENANTS_CHANNEL, tenant)
    },
  }
}
