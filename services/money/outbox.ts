import type { Journal } from '../../schemas/types.ts'
import { moneyKeys } from './redis-keys.ts'
import { createTenants } from './tenants.ts'
import { orIfUnavailable } from '../runtime/platform/errors.ts'
import { joinLua, type RedisClient, script } from '../runtime/platform/redis.ts'

/** An entry in the outbox; `text` is what a script wrote there. */
type PendingEntry = Journal & { readonly text: string }

export type Outbox = {
  /** Entries that the journal topic has not acknowledged yet, in order of seq. */
  readonly pending: (tenant: string) => Promise<readonly PendingEntry[]>
  /**
   * Removes entries that the journal topic has acknowledged, as they were read: if Redis has lost
   * one since, its seq may belong to another entry, which stays. Idempotent.
   */
  readonly remove: (
    tenant: string, entries: readonly Pick<PendingEntry, 'seq' | 'text'>[]
  ) => Promise<void>
  readonly tenantsWithPending: () => Promise<readonly string[]>
}

/**
 * The outbox of wallets: entries that scripts wrote, until they are in `wallet.journal`. `lookup`,
 * `settle` and `ledger/takeover.ts` ship them; `announce.lua`, `close.lua` and `ledger/takeover.ts`
 * remove them then.
 */
export function createOutbox (redis: RedisClient): Outbox {
  const { active } = createTenants(redis)
  const removeShipped = script(redis, {
    name: 'remove-shipped',
    source: joinLua(new URL('./remove-shipped.lua', import.meta.url)),
    numberOfKeys: 1,
  })
  return {
    pending: async (tenant) => {
      const fields = Object.entries(await redis.hgetall(moneyKeys(tenant).wallet))
      return fields.filter(([name]) => pendingSeq(name) !== undefined)
        .map(([, text]) => ({ ...entryOf(text), text }))
        .sort((a, b) => a.seq - b.seq)
    },
    remove: async (tenant, entries) => {
      if (entries.length === 0) return
      await removeShipped(
        [moneyKeys(tenant).wallet], entries.flatMap(({ seq, text }) => [fieldOf(seq), text]))
    },
    tenantsWithPending: async () => {
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

const fieldOf = (seq: number) => `${ENTRY}${seq}`

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
export function entryOf (json: string): Journal {
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
