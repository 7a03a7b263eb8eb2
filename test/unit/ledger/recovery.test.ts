import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import { recover, type RecoveryDeps } from '../../../services/ledger/recovery.ts'
import { globalKey } from '../../../services/runtime/platform/redis.ts'
import { topicName } from '../../../services/runtime/platform/topics.ts'
import { post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import { codec } from '../../support/clickhouse/results.ts'
import { createManualClock } from '../../support/stage-doubles.ts'
import { emptyWallet } from '../../support/recovery/wallet-snapshot.ts'

const NOW_MS = 1_800_000_000_000
/** Tenants that are unlocked concurrently; those with more to restore take longer. */
const AT_ONCE = 32
const { signal } = new AbortController()

type Tenant = { readonly tenant: string, readonly openJobs: number, readonly at: number }

/** A top-up and reservations of a tenant, of which Redis has lost everything. */
function journalOf ({ tenant, openJobs, at }: Tenant): readonly Journal[] {
  let amounts = ZERO_AMOUNTS
  const entry = (seq: number, given: Pick<Journal, 'type' | 'job' | 'amountMicros'>): Journal => {
    const movement = { ...given, chargeMicros: 0 }
    amounts = post(amounts, movement)
    const entryId = `${given.job}:${given.type}`
    return { tenant, seq, entryId, ...movement, ...amounts, at, reason: '{}', header: null }
  }
  return [
    entry(1, { type: 'topup', job: '', amountMicros: 9_000 }),
    ...Array.from({ length: openJobs }, (_, index) =>
      entry(index + 2, { type: 'reserve', job: `job_${tenant}_${index}`, amountMicros: 2 })),
  ]
}

/** Reads these entries as the journal, once. */
function readerOf (journal: readonly Journal[]): RecoveryDeps['reader'] {
  return {
    read: async (topic, onMessages, { from } = {}) => {
      const isFirst = from === undefined || from.size === 0
      if (topic !== topicName('wallet.journal') || !isFirst) return new Map()
      await onMessages(await Promise.all(journal.map(async (entry, offset) => ({
        value: await codec.encode('wallet.journal-value', entry),
        partition: 0,
        offset: BigInt(offset),
      }))) as never)
      return new Map([[0, BigInt(journal.length)]])
    },
  }
}

function setUp (tenants: readonly Tenant[]) {
  const unlocked: string[] = []
  const deps: RecoveryDeps = {
    codec,
    reader: readerOf(tenants.flatMap(journalOf)),
    tenants: {
      all: async () => tenants.map(({ tenant }) => tenant),
      add: async () => {},
      activate: async () => {},
    },
    recoveryStore: {
      snapshotWallet: async tenant => emptyWallet(tenant),
      unlock: async tenant => {
        unlocked.push(tenant)
        return 'done'
      },
      rebuild: async () => 'made',
    },
    servers: async () => [{ address: '', run: 'r', keyOf: globalKey, has: () => true }],
    redis: {
      get: async () => 'r',
      set: async () => 'OK',
      del: async () => 0,
      sadd: async () => 1,
      hset: async () => 1,
      hsetnx: async () => 1,
    } as unknown as RecoveryDeps['redis'],
    journal: { lengths: async () => new Map(), readNewest: async () => [] },
    archive: { findAll: async () => new Map() },
    history: { listAll: async () => [] },
    subscriptions: async () => [],
    emitter: { emit: async () => {} },
    log: { info: () => {}, warn: () => {}, error: () => {} },
    metrics: { count: () => {} },
    clock: createManualClock(NOW_MS),
    sleep: async () => {},
    graceMs: 1,
  }
  return { deps, unlocked }
}

describe('recover', () => {
  it('unlocks tenants with most open jobs first, then those whose money moved last', async () => {
    const [none, one, many] = [0, 1, 3].map(openJobs =>
      Array.from({ length: AT_ONCE }, (_, index) =>
        ({ tenant: `org_${openJobs}_${index}.live`, openJobs, at: NOW_MS - 1_000 * index })))
    const { deps, unlocked } = setUp([...none!, ...one!, ...many!].toReversed())
    await recover(deps, '1', { signal })
    const names = (tenants: readonly Tenant[]) => tenants.map(({ tenant }) => tenant)
    expect(unlocked).toEqual(names([...many!, ...one!, ...none!]))
  })
})
