import type { Journal } from '../../schemas/types.ts'
import { createUnlocker, guardedScript, GUARD_LUA, WALLET_LUA } from './recovery-guard.ts'
import { joinLua, type RedisClient } from '../runtime/platform/redis.ts'
import { writeTexts } from './texts.ts'
import { entryOf, integer } from './outbox.ts'
import { moneyKeys } from './redis-keys.ts'
import { createMarkActive } from './tenants.ts'

type Movement = {
  /** Idempotency key, valid for ever: the same id posts nothing again. */
  readonly id: string
  readonly amountMicros: number
  /** For operators; customers never see it. */
  readonly reason: string
  /** For the customer, who sees it with the movement. */
  readonly note?: string | undefined
}

export type Balance = {
  readonly availableMicros: number
  readonly reservedMicros: number
  readonly chargedMicros: number
  readonly fundedMicros: number
  /** Seq of the last entry, 0 before the first. */
  readonly seq: number
}

/**
 * `known`: this id was posted before with the same amount; its entry, while it is in the outbox.
 * `conflict`: this id was posted before with another amount; no money moved.
 * `insufficient`: the balance would become negative; no money moved.
 */
type Posting =
  | { readonly kind: 'posted', readonly entry: Journal }
  | { readonly kind: 'known', readonly entry: Journal | undefined }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'insufficient', readonly availableMicros: number }

export type Wallet = {
  /** Adds money, at least 1 micro. */
  readonly topUp: (tenant: string, movement: Movement) => Promise<Posting>
  /** Corrects a balance by a signed amount, never 0. */
  readonly adjust: (tenant: string, movement: Movement) => Promise<Posting>
  readonly balance: (tenant: string) => Promise<Balance>
  /** Unlocks the wallet of a tenant that was just created and has no entries anywhere. */
  readonly unlockNew: (tenant: string) => Promise<void>
}

/** A manual movement waits this long for `ledger` to unlock its wallet. */
const MANUAL_UNLOCK_TIMEOUT_MS = 10_000

/**
 * The wallets of tenants. `available + reserved + charged = funded` always holds, and the script of
 * a movement writes its entry to the outbox. Amounts are integers of micros below 10^15; scripts
 * reject other amounts and larger sums before their first write.
 * Movements throw RecoveringError while the wallet is locked, FrozenError while it is frozen.
 */
export function createWallet (redis: RedisClient): Wallet {
  const loadScript = (name: 'topup' | 'adjust') => {
    // Both scripts call functions of the two files before them.
    const source = joinLua(GUARD_LUA, WALLET_LUA, new URL(`./${name}.lua`, import.meta.url))
    return guardedScript(
      redis, { name, source, numberOfKeys: 2, timeoutMs: MANUAL_UNLOCK_TIMEOUT_MS })
  }
  const scripts = { topup: loadScript('topup'), adjust: loadScript('adjust') }
  const markActive = createMarkActive(redis)
  const post = async (type: 'topup' | 'adjust', tenant: string, movement: Movement) => {
    checkMovement(type, movement)
    // Before the script: `ledger` ships only the outboxes of active tenants.
    await markActive(tenant)
    const { wallet, posted } = moneyKeys(tenant)
    const { id, amountMicros } = movement
    return postingOf(await scripts[type](
      tenant, [wallet, posted], [tenant, id, String(amountMicros), writeTexts(movement)]))
  }
  return {
    topUp: (tenant, movement) => post('topup', tenant, movement),
    adjust: (tenant, movement) => post('adjust', tenant, movement),
    balance: async (tenant) => balanceOf(await redis.hmget(moneyKeys(tenant).wallet, ...BALANCE)),
    unlockNew: createUnlocker(redis),
  }
}

function checkMovement (type: 'topup' | 'adjust', { id, amountMicros }: Movement): void {
  if (id === '') throw new RangeError('the id of a movement must not be empty')
  if (!Number.isSafeInteger(amountMicros) || amountMicros === 0) {
    throw new RangeError(`the amount is ${amountMicros}; use an integer of micros other than 0`)
  }
  if (type === 'topup' && amountMicros < 0) {
    throw new RangeError(
      `the amount of a top-up is ${amountMicros}; use an adjustment to take money`)
  }
}

function postingOf (reply: unknown): Posting {
  const [kind, detail = ''] = reply as string[]
  switch (kind) {
    case 'posted': return { kind, entry: entryOf(detail) }
    case 'known': return { kind, entry: detail === '' ? undefined : entryOf(detail) }
    case 'conflict': return { kind }
    case 'insufficient': return { kind, availableMicros: integer(detail) }
    default: throw new Error(`unexpected reply of the wallet script: ${kind}`)
  }
}

const BALANCE = ['available', 'reserved', 'charged', 'funded', 'seq'] as const

function balanceOf (values: readonly (string | null)[]): Balance {
  const [available, reserved, charged, funded, seq] = values.map(value => integer(value ?? '0'))
  return {
    availableMicros: available ?? 0,
    reservedMicros: reserved ?? 0,
    chargedMicros: charged ?? 0,
    fundedMicros: funded ?? 0,
    seq: seq ?? 0,
  }
}
