import { LRUCache } from 'lru-cache'
import type { Journal } from '../../schemas/types.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import {
  InfrastructureError, isInfrastructure, orIfUnavailable,
} from '../runtime/platform/errors.ts'
import { joinLua, namedArguments, type RedisClient, script } from '../runtime/platform/redis.ts'
import { sleep } from '../runtime/platform/retry.ts'
import { writeTexts } from './entry-reason.ts'
import { RECONSTRUCTED } from './journal.ts'
import type { Amounts } from './prices.ts'
import { ACTIVE_KEY, LOCKED_TENANTS_CHANNEL, moneyKeys, TENANTS_KEY } from './redis-keys.ts'

/** The recovery guard: the first file of every script that moves money. */
export const GUARD_LUA = new URL('./recovery-guard.lua', import.meta.url)

/** The movements of money, shared by every script that makes any. */
export const WALLET_LUA = new URL('./wallet.lua', import.meta.url)

export type ManualMovement = {
  /** Idempotency key, valid for ever: the same id posts nothing again. */
  readonly id: string
  readonly amountMicros: number
  /** For operators; customers never see it. */
  readonly reason: string
  /** For the customer, who sees it with the movement. */
  readonly note?: string | undefined
}

/** `seq`: of the last entry, 0 before the first. */
export type Balance = Amounts & { readonly seq: number }

/**
 * `known`: this id was posted before with the same amount, by the entry `seq`.
 * `conflict`: this id was posted before with another amount; no money moved.
 * `insufficient`: the balance would become negative; no money moved.
 * `too_much`: the funded amount would exceed the maximum; no money moved.
 */
export type Posting =
  | { readonly kind: 'posted' | 'known', readonly seq: number }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'insufficient', readonly availableMicros: number }
  | { readonly kind: 'too_much', readonly fundedMicros: number }

export type Wallet = ReturnType<typeof createWallet>

/** A manual movement waits this long for `ledger` to unlock its wallet. */
const MANUAL_UNLOCK_TIMEOUT_MS = 10_000

/**
 * The wallets of tenants. `available + reserved + charged = funded` always holds, and the script of
 * a movement writes its entry to the outbox. Amounts are integers of micros below 10^15; scripts
 * reject others before their first write.
 * Movements throw RecoveringError while the wallet is locked, FrozenError while it is frozen.
 */
export function createWallet (redis: RedisClient) {
  const fund = guardedScript(redis, {
    name: 'fund',
    source: joinLua(GUARD_LUA, WALLET_LUA, new URL('./fund.lua', import.meta.url)),
    numberOfKeys: 2,
    timeoutMs: MANUAL_UNLOCK_TIMEOUT_MS,
  })
  const unlockNew = script(redis, {
    name: 'unlock-new', source: joinLua(GUARD_LUA) + UNLOCK_NEW, numberOfKeys: 1,
  })
  const markActive = createMarkActive(redis)
  const post = async (
    type: 'topup' | 'adjust', tenant: string, movement: ManualMovement
  ): Promise<Posting> => {
    // Before the script: `ledger` ships only the outboxes of active tenants.
    await markActive(tenant)
    const { wallet, posted } = moneyKeys(tenant)
    const { id, amountMicros } = movement
    return parsePosting(await fund(tenant, [wallet, posted], [namedArguments({
      tenant, type, id, amount: amountMicros, reason: writeTexts(movement),
    })]))
  }
  return {
    /** Adds money, at least 1 micro. */
    topUp: (tenant: string, movement: ManualMovement) => post('topup', tenant, movement),

    /** Corrects a balance by a signed amount, never 0. */
    adjust: (tenant: string, movement: ManualMovement) => post('adjust', tenant, movement),

    /**
     * Whether the journal topic has a movement: until then a Redis that loses its files loses it,
     * and another movement gets its number.
     */
    isShipped: async (
      tenant: string, type: 'topup' | 'adjust', { id }: Pick<ManualMovement, 'id'>
    ): Promise<boolean> => {
      const { wallet, posted } = moneyKeys(tenant)
      const [seq] = (await redis.hget(posted, `${type}:${id}`))?.split(':') ?? []
      return seq !== undefined && await redis.hexists(wallet, ENTRY + seq) === 0
    },

    balance: async (tenant: string): Promise<Balance> => {
      const values = await redis.hmget(
        moneyKeys(tenant).wallet, 'available', 'reserved', 'charged', 'funded', 'seq')
      const [available = 0, reserved = 0, charged = 0, funded = 0, seq = 0] =
        values.map(value => integer(value ?? '0'))
      return {
        availableMicros: available,
        reservedMicros: reserved,
        chargedMicros: charged,
        fundedMicros: funded,
        seq,
      }
    },

    /**
     * Unlocks a tenant whose random id was just generated, so the journal has no entries of it. An
     * existing wallet stays as it is.
     */
    unlockNew: async (tenant: string): Promise<void> => {
      await unlockNew([moneyKeys(tenant).wallet], [])
    },
  }
}

const UNLOCK_NEW = `
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'run', run_id())
end`

function parsePosting (reply: unknown): Posting {
  const [kind, detail = ''] = reply as string[]
  switch (kind) {
    case 'posted':
    case 'known': return { kind, seq: integer(detail) }
    case 'conflict': return { kind }
    case 'insufficient': return { kind, availableMicros: integer(detail) }
    case 'too_much': return { kind, fundedMicros: integer(detail) }
    default: throw new Error(`unexpected reply of the wallet script: ${kind}`)
  }
}

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
export class FrozenError extends Error {
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

export type GuardState = {
  /** False until `ledger` has compared the tenant with the journal. */
  readonly isUnlocked: boolean
  /** Why no money moves; empty when the wallet is not frozen. */
  readonly frozen: string
}

/** The recovery guards of tenants, for operators. */
export function createRecoveryGuards (redis: RedisClient) {
  const lock = script(redis, { name: 'lock', source: LOCK, numberOfKeys: 1 })
  return {
    read: async (tenant: string): Promise<GuardState> => {
      const [run, frozen] = await redis.hmget(moneyKeys(tenant).wallet, 'run', 'frozen')
      return { isUnlocked: run !== null && run !== undefined, frozen: frozen ?? '' }
    },

    /**
     * The seqs of top-ups and adjustments that were reconstructed without their ids and count: one
     * that counts nothing any more is known with the amount 0.
     */
    reconstructed: async (tenant: string): Promise<readonly number[]> =>
      Object.entries(await redis.hgetall(moneyKeys(tenant).posted))
        .filter(([id, posted]) => id.startsWith(RECONSTRUCTED) && !posted.endsWith(':0'))
        .map(([id]) => Number(id.slice(RECONSTRUCTED.length))).sort((a, b) => a - b),

    /**
     * Has `ledger` compare a wallet again; a contradiction freezes it again. With
     * `trustJournal` the journal replaces the state of Redis.
     */
    thaw: async (tenant: string, trustJournal: boolean): Promise<void> => {
      await lock([moneyKeys(tenant).wallet], [trustJournal ? 'journal' : ''])
      await redis.publish(LOCKED_TENANTS_CHANNEL, tenant)
    },
  }
}

/** At once: trust that a command left behind when it died would hold at the next restart. */
const LOCK = `
if ARGV[1] ~= '' then
  redis.call('HSET', KEYS[1], 'trust', ARGV[1])
end
redis.call('HDEL', KEYS[1], 'run', 'frozen')`

/** An entry in the outbox; `text` is what a script wrote there. */
export type PendingEntry = Journal & { readonly text: string }

export type Outbox = ReturnType<typeof createOutbox>

/**
 * The outbox of wallets: entries that scripts wrote, until they are in `wallet.journal`. `lookup`,
 * `settle` and `ledger/takeover.ts` ship them; `announce.lua`, `close.lua` and `ledger/takeover.ts`
 * remove them then.
 */
export function createOutbox (redis: RedisClient) {
  const { active } = createTenants(redis)
  const removeShipped = script(redis, {
    name: 'remove-shipped',
    source: joinLua(new URL('./remove-shipped.lua', import.meta.url)),
    numberOfKeys: 1,
  })
  return {
    /** Entries that the journal topic has not acknowledged yet, in order of seq. */
    pending: async (tenant: string): Promise<readonly PendingEntry[]> => {
      const fields = Object.entries(await redis.hgetall(moneyKeys(tenant).wallet))
      return fields.filter(([name]) => pendingSeq(name) !== undefined)
        .map(([, text]) => ({ ...parseEntry(text), text }))
        .sort((a, b) => a.seq - b.seq)
    },

    /**
     * Removes entries that the journal topic has acknowledged, as they were read: if Redis has lost
     * one since, its seq may belong to another entry, which stays. Idempotent.
     */
    remove: async (
      tenant: string, entries: readonly Pick<PendingEntry, 'seq' | 'text'>[]
    ): Promise<void> => {
      if (entries.length === 0) return
      await removeShipped(
        [moneyKeys(tenant).wallet], entries.flatMap(({ seq, text }) => [ENTRY + seq, text]))
    },

    tenantsWithPending: async (): Promise<readonly string[]> => {
      const tenants = (await active()).map(({ tenant }) => tenant)
      // A server that is gone must not delay the tenants of the others.
      const fields = await Promise.all(tenants.map(tenant =>
        redis.hkeys(moneyKeys(tenant).wallet).catch(orIfUnavailable([]))))
      return tenants.filter((_, index) =>
        fields[index]?.some(name => pendingSeq(name) !== undefined)).sort()
    },
  }
}

/** The prefix of an entry's field in a wallet, as in wallet.lua. */
const ENTRY = 'entry:'

/** The seq of the entry in a field of a wallet; undefined for any other field. */
export function pendingSeq (field: string): number | undefined {
  const seq = field.startsWith(ENTRY) ? field.slice(ENTRY.length) : ''
  return /^\d+$/.test(seq) ? Number(seq) : undefined
}

/**
 * Parses an entry as a script wrote it: JSON whose values are all strings, because cjson writes
 * integers from 10^14 on as floats.
 * @throws RangeError when an amount is not a safe integer.
 */
export function parseEntry (json: string): Journal {
  const fields = JSON.parse(json) as Record<keyof Journal, string>
  return {
    tenant: fields.tenant,
    seq: integer(fields.seq),
    entryId: fields.entryId,
    type: fields.type,
    job: fields.job,
    amountMicros: integer(fields.amountMicros),
    chargeMicros: integer(fields.chargeMicros),
    availableMicros: integer(fields.availableMicros),
    reservedMicros: integer(fields.reservedMicros),
    chargedMicros: integer(fields.chargedMicros),
    fundedMicros: integer(fields.fundedMicros),
    at: integer(fields.at),
    reason: fields.reason,
    header: fields.header === '' ? null : Buffer.from(fields.header, 'base64'),
  }
}

/**
 * Parses a decimal integer.
 * @throws RangeError when the text is not a safe integer.
 */
export function integer (text: string | undefined): number {
  const value = Number(text)
  if (text === undefined || !/^-?[0-9]+$/.test(text) || !Number.isSafeInteger(value)) {
    throw new RangeError(`not a safe integer: ${text}`)
  }
  return value
}

/** A tenant and the time of its last mark as active (Redis time, ms). */
type ActiveTenant = { readonly tenant: string, readonly sinceMs: number }

export type Tenants = ReturnType<typeof createTenants>

/** An idle tenant keeps its mark for this long, which exceeds the time of any script after it. */
export const IDLE_AFTER_MS = 600_000

const MARK_EVERY_MS = 60_000
/** A process trusts its mark for so long when it cannot repeat it, as it outlasts that. */
export const MARK_LASTS_MS = IDLE_AFTER_MS / 2
const TENANTS_PER_BATCH = 500

const ACTIVATE = `
  local time = redis.call('TIME')
  local now = string.format('%.0f', tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000))
  for _, tenant in ipairs(ARGV) do
    redis.call('ZADD', KEYS[1], now, tenant)
  end`
const DEACTIVATE = `
  if redis.call('ZSCORE', KEYS[1], ARGV[1]) == ARGV[2] then
    redis.call('ZREM', KEYS[1], ARGV[1])
  end`

/**
 * All tenants, and the active ones. Periodic work visits only these, so its cost depends on the
 * activity and not on the number of tenants.
 */
export function createTenants (redis: RedisClient) {
  const mark = script(redis, { name: 'activate', source: ACTIVATE, numberOfKeys: 1 })
  const unmark = script(redis, { name: 'deactivate', source: DEACTIVATE, numberOfKeys: 1 })
  const add = async (tenants: readonly string[]): Promise<void> => {
    for (const batch of splitBatches(tenants, TENANTS_PER_BATCH)) {
      await redis.sadd(TENANTS_KEY, ...batch)
    }
  }
  return {
    /** Adds tenants to the list of all. */
    add,

    /** Marks tenants as active, and adds them to the list of all. */
    activate: async (tenants: readonly string[]): Promise<void> => {
      await add(tenants)
      for (const batch of splitBatches(tenants, TENANTS_PER_BATCH)) await mark([ACTIVE_KEY], batch)
    },

    /** Tenants that may have pending entries or open jobs, or whose money moved recently. */
    active: async (): Promise<readonly ActiveTenant[]> => {
      const pairs = await redis.zrange(ACTIVE_KEY, '0', '-1', 'WITHSCORES')
      return Array.from({ length: pairs.length / 2 }, (_, index) =>
        ({ tenant: pairs[2 * index] ?? '', sinceMs: Number(pairs[2 * index + 1]) }))
    },

    /** Removes the mark, unless the tenant was marked again since. */
    deactivate: async ({ tenant, sinceMs }: ActiveTenant): Promise<void> => {
      await unmark([ACTIVE_KEY], [tenant, String(sinceMs)])
    },

    all: (): Promise<readonly string[]> => redis.smembers(TENANTS_KEY),
  }
}

/**
 * Marks a tenant as active. Must be called before a script that adds an outbox entry or an open
 * job: `ledger` ships only the outboxes of active tenants, and looks only at their jobs. Each
 * process marks a tenant at most once a minute. If Redis loses the mark, `ledger` restores it.
 * While the server with the marks does not respond, tenants on other servers keep theirs of the
 * last minutes.
 */
export function createMarkActive (
  redis: RedisClient, now = () => performance.now()
): (tenant: string) => Promise<void> {
  const tenants = createTenants(redis)
  const markedAtMs = new LRUCache<string, number>({ max: 10_000 })
  return async tenant => {
    const ageMs = now() - (markedAtMs.get(tenant) ?? -Infinity)
    if (ageMs < MARK_EVERY_MS) return
    const startedMs = now()
    try {
      await tenants.activate([tenant])
      markedAtMs.set(tenant, startedMs)
    } catch (error) {
      if (ageMs >= MARK_LASTS_MS || !isInfrastructure(error)) throw error
    }
  }
}
