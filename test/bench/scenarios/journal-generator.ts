import type { Redis } from 'ioredis'
import kafkajs, { Kafka, logLevel, type Message, Partitioners } from 'kafkajs'
import type { Journal } from '../../../schemas/types.ts'
// Adds the compression to the client.
import '../../../services/runtime/kafka/kafka-bus.ts'
import { createCodec, registrySource } from '../../../services/runtime/kafka/registry.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import { moneyKeys, TENANTS_KEY } from '../../../services/money/redis-keys.ts'
import { topicName } from '../../../services/runtime/platform/topics.ts'
import { messageMacOf } from '../../support/keys/signed.ts'

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
/** About as much as the services put into a request. */
const BATCH_ENTRIES = 1_000
/** Requests in flight: encoding, compression and the broker work at the same time. */
const CONCURRENT_BATCHES = 4
const REQUEST_TIMEOUT_MS = 30_000
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
export async function createJournalGenerator (
  { env, redis, tenants: count, prefix = 'journal' }:
  { env: Env, redis: Redis, tenants: number, prefix?: string }
): Promise<JournalGenerator> {
  const journal = await connectJournal(env)
  const at = Date.now() - AGE_MS
  const wallets = Array.from({ length: count }, (_, index): Wallet =>
    ({ tenant: `org_${prefix}${index}.live`, seq: 0, amounts: ZERO_AMOUNTS }))
  return {
    tenants: wallets.map(({ tenant }) => tenant),
    growTo: async entries => {
      // Odd, so that after the top-up each job has both of its entries.
      const perTenant = Math.floor(entries / count / 2) * 2 + 1
      await journal.send(newEntries(wallets, { perTenant, at }))
      await writeWallets(redis, wallets)
    },
    close: journal.close,
  }
}

/** Sends signed entries in compressed batches, some of them at the same time. */
async function connectJournal (env: Env) {
  const codec = createCodec(
    registrySource({ SCHEMA_REGISTRY_URL: env['SCHEMA_REGISTRY_URL'] ?? '' }))
  const mac = messageMacOf(env)
  const kafka = new Kafka({
    brokers: (env['KAFKA_BROKERS'] ?? '').split(','),
    clientId: 'bench',
    logLevel: logLevel.NOTHING,
    requestTimeout: REQUEST_TIMEOUT_MS,
  })
  const producer = kafka.producer({ createPartitioner: Partitioners.DefaultPartitioner })
  await producer.connect()
  const topic = topicName('wallet.journal')
  const messageOf = async (entry: Journal): Promise<Message> => {
    const { tenant: key, job } = entry
    const bytes = await codec.encode('wallet.journal-value', entry)
    const signed = mac.sign({ topic, key, value: bytes, headers: { tenant: key, job } })
    return { key, value: bytes, headers: { ...signed.headers } }
  }
  return {
    send: async (batches: Iterable<readonly Journal[]>) => {
      const iterator = batches[Symbol.iterator]()
      const work = async () => {
        for (let next = iterator.next(); next.done !== true; next = iterator.next()) {
          const messages = await Promise.all(next.value.map(messageOf))
          const compression = kafkajs.CompressionTypes.ZSTD
          await producer.send({ topic, messages, compression, acks: -1 })
        }
      }
      await Promise.all(Array.from({ length: CONCURRENT_BATCHES }, work))
    },
    close: () => producer.disconnect(),
  }
}

/** Entries in batches; those of one tenant are in one batch, so batches have no order. */
function * newEntries (
  wallets: readonly Wallet[], { perTenant, at }: { readonly perTenant: number, readonly at: number }
): Generator<readonly Journal[]> {
  let batch: Journal[] = []
  for (const wallet of wallets) {
    while (wallet.seq < perTenant) batch.push(appendEntry(wallet, at))
    if (batch.length < BATCH_ENTRIES) continue
    yield batch
    batch = []
  }
  if (batch.length > 0) yield batch
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
      pipeline.sadd(TENANTS_KEY, tenant)
    }
    await pipeline.exec()
  }
}
