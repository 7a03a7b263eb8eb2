import type { Redis } from 'ioredis'
import type { Journal } from '../../../schemas/types.ts'
import { createKafkaBus } from '../../../services/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../../../services/kafka/registry.ts'
import { ZERO_AMOUNTS, post, type Amounts } from '../../../services/money/arithmetic.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { messageMacOf } from '../../support/signed.ts'

type Env = Readonly<Record<string, string>>

export type History = {
  /** Writes entries until the journals of all tenants have so many together. */
  readonly grow: (entries: number) => Promise<void>
  readonly tenants: readonly string[]
  readonly close: () => Promise<void>
}

/** Long ago, so that no key of a job could be sent again. */
const AGE_MS = 48 * 3_600_000
const FUNDS = 1_000_000_000_000
const PRICE = 1_000
const SENT_AT_ONCE = 1_000

/** What a reserve entry says of a job of one row. */
const TERMS = JSON.stringify({
  unitPriceMicros: String(PRICE),
  acceptBy: '1790000000000',
  idempotencyKey: '',
  fingerprint: 'f'.repeat(64),
  claimedAt: '1790000000000',
  cursor: '',
  cursorTo: '-1',
  service: 'phone-validation',
  lane: 'small',
  totalRows: '1',
  invalidRows: '0',
  duplicateRows: '0',
  quotedHits: '0',
  quotedFresh: '1',
  quoteId: 'quot_01jd4qk6c2h5e8s4f7g1k0z3xd',
  chunks: '1',
  forceFresh: '0',
  createdAtMs: '1790000000000',
})

type Wallet = { readonly tenant: string, seq: number, amounts: Amounts }

/**
 * Tenants with journals as jobs of one row leave them, and wallets in Redis that agree with them:
 * each begins with a top-up, then a reservation and its settlement in turn.
 */
export function createHistory (
  { env, redis, tenants: count, prefix = 'history' }:
  { env: Env, redis: Redis, tenants: number, prefix?: string }
): History {
  const codec = createCodec(registrySource(env['SCHEMA_REGISTRY_URL'] ?? ''))
  const bus = createKafkaBus({
    brokers: (env['KAFKA_BROKERS'] ?? '').split(','),
    clientId: 'history',
    mac: messageMacOf(env),
    onFatal: error => { throw error },
  })
  const producer = bus.producer('history')
  const at = Date.now() - AGE_MS
  const wallets = Array.from({ length: count }, (_, index): Wallet =>
    ({ tenant: `org_${prefix}${index}.live`, seq: 0, amounts: ZERO_AMOUNTS }))
  const messageOf = async (value: Journal) => ({
    topic: 'wallet.journal',
    key: value.tenant,
    value: await codec.encode('wallet.journal-value', value),
    headers: { tenant: value.tenant, job: value.job },
  })
  const grow = async (wallet: Wallet, entries: number): Promise<Journal[]> =>
    Array.from({ length: Math.max(0, entries - wallet.seq) }, () => nextOf(wallet, at))
  return {
    tenants: wallets.map(({ tenant }) => tenant),
    grow: async entries => {
      // An odd number: after the top-up each job has both its entries.
      const each = Math.floor(entries / count / 2) * 2 + 1
      let waiting: Journal[] = []
      const send = async () => {
        await producer.send(await Promise.all(waiting.map(messageOf)))
        waiting = []
      }
      for (const wallet of wallets) {
        waiting.push(...await grow(wallet, each))
        if (waiting.length >= SENT_AT_ONCE) await send()
      }
      await send()
      await writeWallets(redis, wallets)
    },
    close: () => bus.close(),
  }
}

function nextOf (wallet: Wallet, at: number): Journal {
  const seq = wallet.seq + 1
  const type = seq === 1 ? 'topup' : seq % 2 === 0 ? 'reserve' : 'settle'
  const amountMicros = type === 'topup' ? FUNDS : PRICE
  const chargeMicros = type === 'settle' ? PRICE : 0
  const job = type === 'topup' ? '' : `job_${wallet.tenant}x${Math.floor(seq / 2)}`
  wallet.seq = seq
  wallet.amounts = post(wallet.amounts, { type, amountMicros, chargeMicros })
  return {
    tenant: wallet.tenant,
    seq,
    entryId: type === 'topup' ? 'topup:1' : `${job}:${type}`,
    type,
    job,
    amountMicros,
    chargeMicros,
    ...wallet.amounts,
    at,
    reason: type === 'reserve' ? TERMS : '',
    header: null,
  }
}

async function writeWallets (redis: Redis, wallets: readonly Wallet[]): Promise<void> {
  for (let from = 0; from < wallets.length; from += SENT_AT_ONCE) {
    const pipeline = redis.pipeline()
    for (const { tenant, seq, amounts } of wallets.slice(from, from + SENT_AT_ONCE)) {
      const { wallet, posted } = moneyKeys(tenant)
      pipeline.hset(wallet, {
        seq,
        available: amounts.availableMicros,
        reserved: amounts.reservedMicros,
        charged: amounts.chargedMicros,
        funded: amounts.fundedMicros,
      })
      pipeline.hset(posted, 'topup:1', `1:${FUNDS}`)
      pipeline.sadd('tenants', tenant)
    }
    await pipeline.exec()
  }
}
