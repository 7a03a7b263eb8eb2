import type { Redis } from 'ioredis'
import type { Journal } from '../../../schemas/types.ts'
import { createKafkaBus } from '../../../services/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../../../services/kafka/registry.ts'
import { ZERO_AMOUNTS, post, type Amounts } from '../../../services/money/arithmetic.ts'
import { moneyKeys } from '../../../services/money/redis-keys.ts'
import { messageMacOf } from '../../support/signed.ts'

type Env = Readonly<Record<string, string>>

export type JournalGenerator = {
  /** Appends entries until the journals of all tenants have this many in total. */
  readonly growTo: (entries: number) => Promise<void>
  readonly tenants: readonly string[]
  readonly close: () => Promise<void>
}

/** Old enough that no idempotency key of these jobs is still valid. */
const AGE_MS = 48 * 3_600_000
const FUNDS = 1_000_000_000_000
const PRICE = 1_000
const BATCH_ENTRIES = 1_000

/** The terms in the reserve entry of a one-row job. */
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
 * Generates the journals of one-row jobs, and wallets in Redis that match them. Each journal starts
 * with a top-up; then reservations and settlements alternate.
 */
export function createJournalGenerator (
  { env, redis, tenants: count, prefix = 'journal' }:
  { env: Env, redis: Redis, tenants: number, prefix?: string }
): JournalGenerator {
  const codec = createCodec(registrySource(env['SCHEMA_REGISTRY_URL'] ?? ''))
  const bus = createKafkaBus({
    brokers: (env['KAFKA_BROKERS'] ?? '').split(','),
    clientId: 'bench',
    mac: messageMacOf(env),
    onFatal: error => { throw error },
  })
  const producer = bus.producer('journal')
  const at = Date.now() - AGE_MS
  const wallets = Array.from({ length: count }, (_, index): Wallet =>
    ({ tenant: `org_${prefix}${index}.live`, seq: 0, amounts: ZERO_AMOUNTS }))
  const messageOf = async (value: Journal) => ({
    topic: 'wallet.journal',
    key: value.tenant,
    value: await codec.encode('wallet.journal-value', value),
    headers: { tenant: value.tenant, job: value.job },
  })
  return {
    tenants: wallets.map(({ tenant }) => tenant),
    growTo: async entries => {
      // Odd, so that after the top-up each job has both of its entries.
      const perTenant = Math.floor(entries / count / 2) * 2 + 1
      let batch: Journal[] = []
      const send = async () => {
        await producer.send(await Promise.all(batch.map(messageOf)))
        batch = []
      }
      for (const wallet of wallets) {
        while (wallet.seq < perTenant) batch.push(appendEntry(wallet, at))
        if (batch.length >= BATCH_ENTRIES) await send()
      }
      await send()
      await writeWallets(redis, wallets)
    },
    close: () => bus.close(),
  }
}

/** Applies the next entry of its journal to the wallet; returns the entry. */
function appendEntry (wallet: Wallet, at: number): Journal {
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
  for (let from = 0; from < wallets.length; from += BATCH_ENTRIES) {
    const pipeline = redis.pipeline()
    for (const { tenant, seq, amounts } of wallets.slice(from, from + BATCH_ENTRIES)) {
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
