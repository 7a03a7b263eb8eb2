import type { Redis } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { createAdmission, guardedScript } from './recovery-guard.ts'
import { GATE_LUA, WALLET_LUA, joinLua } from './lua.ts'
import { entryOf, integer } from './outbox.ts'
import { moneyKeys } from './redis-keys.ts'
import { createActivation } from './tenants.ts'

export type Movement = {
  /** Names the movement for ever: the same id again posts nothing. */
  readonly id: string
  readonly amountMicros: number
  readonly reason: string
}

export type Balance = {
  readonly availableMicros: number
  readonly reservedMicros: number
  readonly chargedMicros: number
  readonly fundedMicros: number
  /** Number of the last entry, 0 before the first. */
  readonly seq: number
}

/**
 * `known`: this id was posted before with the same amount; its entry, while it is in the outbox.
 * `conflict`: this id was posted before with another amount, nothing moved.
 * `insufficient`: taking that much away would leave less than nothing, nothing moved.
 */
export type Posting =
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
  /** Lets in a tenant that was made a moment ago, and of which there can be nothing anywhere. */
  readonly admit: (tenant: string) => Promise<void>
}

/** A movement by hand waits for so long for `ledger` to let its tenant in. */
const PATIENCE_MS = 10_000

/**
 * A tenant's money: `available + reserved + charged = funded`, always, and every movement has an
 * entry in the outbox, written by the same script. Amounts are whole micros below 10^15; scripts
 * reject anything else, and any sum beyond it, before their first write.
 * Movements throw RecoveringError or FrozenError while the tenant's gate is shut.
 */
export function createWallet (redis: Redis): Wallet {
  const movement = (name: 'topup' | 'adjust') => {
    const source = joinLua(GATE_LUA, WALLET_LUA, new URL(`./${name}.lua`, import.meta.url))
    return guardedScript(redis, { name, source, numberOfKeys: 2, patienceMs: PATIENCE_MS })
  }
  const scripts = { topup: movement('topup'), adjust: movement('adjust') }
  const activate = createActivation(redis)
  const post = async (type: 'topup' | 'adjust', tenant: string, movement: Movement) => {
    checkMovement(type, movement)
    await activate(tenant)
    const { wallet, posted } = moneyKeys(tenant)
    const { id, amountMicros, reason } = movement
    return postingOf(await scripts[type](
      tenant, [wallet, posted], [tenant, id, String(amountMicros), reason]))
  }
  return {
    topUp: (tenant, movement) => post('topup', tenant, movement),
    adjust: (tenant, movement) => post('adjust', tenant, movement),
    balance: async (tenant) => balanceOf(await redis.hmget(moneyKeys(tenant).wallet, ...BALANCE)),
    admit: createAdmission(redis),
  }
}

function checkMovement (type: 'topup' | 'adjust', { id, amountMicros }: Movement): void {
  if (id === '') throw new RangeError('a movement of money needs an id')
  if (!Number.isSafeInteger(amountMicros) || amountMicros === 0) {
    throw new RangeError('an amount is a whole number of micros and not 0')
  }
  if (type === 'topup' && amountMicros < 0) {
    throw new RangeError('a top-up is positive; take money away with an adjustment')
  }
}

function postingOf (reply: unknown): Posting {
  const [kind, detail = ''] = reply as string[]
  switch (kind) {
    case 'posted': return { kind, entry: entryOf(detail) }
    case 'known': return { kind, entry: detail === '' ? undefined : entryOf(detail) }
    case 'conflict': return { kind }
    case 'insufficient': return { kind, availableMicros: integer(detail) }
    default: throw new Error(`the wallet answered ${kind}`)
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
