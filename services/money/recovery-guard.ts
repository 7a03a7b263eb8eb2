import { InfrastructureError } from '../runtime/platform/errors.ts'
import { type RedisClient, script, joinLua } from '../runtime/platform/redis.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { LOCKED_TENANTS_CHANNEL, moneyKeys } from './redis-keys.ts'

/** The wallet is locked until `ledger` has compared it with the journal: retry later. */
class RecoveringError extends InfrastructureError {
  constructor (tenant: string, cause: unknown) {
    super(`the wallet of ${tenant} is locked until ledger has compared it with the journal; if ` +
      'this lasts, check that a ledger is running', { cause })
  }
}

/** The blocks of a job are being recounted after a loss of Redis: retry later. */
class ReplayingError extends InfrastructureError {
  constructor (tenant: string, cause: unknown) {
    super(`blocks of jobs of ${tenant} are being recounted`, { cause })
  }
}

/** The wallet contradicts the journal: no money moves until an operator thaws it. */
class FrozenError extends Error {
  override readonly name = 'FrozenError'
}

/** Calls a script of a tenant that begins with the recovery guard. */
export type GuardedScript = (
  tenant: string, keys: readonly string[], args: readonly (string | number | Buffer)[],
) => Promise<unknown>

type GuardedOptions = {
  readonly name: string
  readonly source: string
  readonly numberOfKeys: number
  /** How long a call waits for the unlock; `ledger` unlocks a new tenant at once. */
  readonly timeoutMs?: number
}

const UNLOCK_TIMEOUT_MS = 300
const FIRST_PAUSE_MS = 5
const MAX_PAUSE_MS = 200

/**
 * A script that begins with the recovery guard. A call on a locked wallet asks `ledger` to unlock
 * it, waits for up to `timeoutMs`, and then fails.
 * Calls throw RecoveringError while the wallet is locked, FrozenError when it is frozen.
 */
export function guardedScript (redis: RedisClient, options: GuardedOptions): GuardedScript {
  const { timeoutMs = UNLOCK_TIMEOUT_MS } = options
  const call = script(redis, options)
  return async (tenant, keys, args) => {
    for (let waitedMs = 0, pauseMs = FIRST_PAUSE_MS; ; pauseMs = longer(pauseMs)) {
      try {
        return await call(keys, args)
      } catch (error) {
        const guardError = toGuardError(tenant, error)
        if (!(guardError instanceof RecoveringError) || waitedMs >= timeoutMs) throw guardError
      }
      const isRequested = waitedMs > 0 && pauseMs < MAX_PAUSE_MS
      if (!isRequested) await redis.publish(LOCKED_TENANTS_CHANNEL, tenant)
      await sleep(pauseMs)
      waitedMs += pauseMs
    }
  }
}

const longer = (pauseMs: number) => Math.min(pauseMs * 2, MAX_PAUSE_MS)

/** The first word of an error reply is its code, as in errors of Redis itself. */
function toGuardError (tenant: string, error: unknown): unknown {
  const [code, ...rest] = error instanceof Error ? error.message.split(' ') : []
  if (code === 'RECOVERING') return new RecoveringError(tenant, error)
  if (code === 'REPLAYING') return new ReplayingError(tenant, error)
  if (code !== 'FROZEN') return error
  return new FrozenError(`the wallet of ${tenant} is frozen: ${rest.join(' ')}`, { cause: error })
}

const UNLOCK_NEW = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'run', run_id())
end`

/**
 * Unlocks a tenant whose random id was just generated, so the journal has no entries of it. An
 * existing wallet stays as it is.
 */
export function createUnlocker (redis: RedisClient): (tenant: string) => Promise<void> {
  const source = joinLua(GUARD_LUA) + UNLOCK_NEW
  const unlockNew = script(redis, { name: 'unlock-new', source, numberOfKeys: 1 })
  return async tenant => {
    await unlockNew([moneyKeys(tenant).wallet], [])
  }
}

export type GuardState = {
  /** False until `ledger` has compared the tenant with the journal. */
  readonly isUnlocked: boolean
  /** Why no money moves; empty when the wallet is not frozen. */
  readonly frozen: string
}

/** The recovery guards of tenants, for operators. */
export function createRecoveryGuards (redis: RedisClient) {
  return {
    read: async (tenant: string): Promise<GuardState> => {
      const [run, frozen] = await redis.hmget(moneyKeys(tenant).wallet, 'run', 'frozen')
      return { isUnlocked: run !== null && run !== undefined, frozen: frozen ?? '' }
    },

    /**
     * Has `ledger` compare a frozen wallet again; a contradiction freezes it again. With
     * `trustJournal` the journal replaces the state of Redis.
     */
    thaw: async (tenant: string, trustJournal: boolean): Promise<void> => {
      const { wallet } = moneyKeys(tenant)
      if (trustJournal) await redis.hset(wallet, { trust: 'journal' })
      await redis.hdel(wallet, 'run', 'frozen')
      await redis.publish(LOCKED_TENANTS_CHANNEL, tenant)
    },
  }
}

/** The recovery guard: the first file of every script that moves money. */
export const GUARD_LUA = new URL('./recovery-guard.lua', import.meta.url)

/** The movements of money, shared by every script that makes any. */
export const WALLET_LUA = new URL('./wallet.lua', import.meta.url)
