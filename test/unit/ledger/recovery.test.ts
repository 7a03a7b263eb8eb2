import { describe, expect, it } from 'vitest'
import type { Journal, Snapshot } from '../../../schemas/types.ts'
import { recover, type RecoveryDeps } from '../../../services/ledger/recovery.ts'
import type { RebuiltJob, WalletSnapshot } from '../../../services/ledger/recovery-store.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'
import type { ReadLimits } from '../../../services/runtime/kafka/topic-reader.ts'
import { globalKey } from '../../../services/runtime/platform/redis.ts'
import { codec, endedJob } from '../../support/clickhouse/results.ts'
import { emptyWallet } from '../../support/recovery/ledger-events.ts'
import { createManualClock } from '../../support/stage-messages.ts'

const DAY_MS = 86_400_000
const NOW_MS = 100 * DAY_MS
const TENANT = 'org_a.live'
const { signal } = new AbortController()

type Move = readonly [type: 'topup' | 'reserve' | 'settle', job: string, amountMicros: number]

/** A top-up and these movements of a tenant; all that was reserved is charged. */
function journalOf (tenant: string, moves: readonly Move[], at = NOW_MS - 1): readonly Journal[] {
  let amounts: Amounts = ZERO_AMOUNTS
  return [['topup', '', 9_000] as Move, ...moves].map(([type, job, amountMicros], index) => {
    const movement = { type, amountMicros, chargeMicros: type === 'settle' ? amountMicros : 0 }
    amounts = post(amounts, movement)
    const entryId = `${job}:${type}`
    const more = { tenant, at, seq: index + 1, reason: '{}', header: null }
    return { ...movement, ...amounts, ...more, entryId, job }
  })
}

const BATCH = 100

const messagesOf = async (topic: 'wallet.journal' | 'wallet.snapshots', some: readonly object[]) =>
  await Promise.all(some.map(async value => ({
    value: await codec.encode(`${topic}-value`, value), partition: 0, offset: 0n,
  }))) as unknown as readonly RawMessage[]

/** Redis with empty wallets, a journal, and snapshots of it. */
function setUp (
  journal: readonly Journal[],
  { wallet = {}, snapshots = [] }: {
    readonly wallet?: Partial<WalletSnapshot>, readonly snapshots?: readonly Snapshot[],
  } = {}
) {
  const tenants = [...new Set(journal.map(({ tenant }) => tenant))]
  const unlocked: string[] = []
  const rebuilt: RebuiltJob[] = []
  /** The number of jobs that were rebuilt after each batch of entries. */
  const rebuiltAfter: number[] = []
  const reads: ReadLimits[] = []
  const deps: RecoveryDeps = {
    codec,
    reader: {
      read: async (topic, onMessages, { sinceMs, from } = {}) => {
        if (topic === 'wallet.snapshots') await onMessages(await messagesOf(topic, snapshots))
        if (topic !== 'wallet.journal') return new Map()
        reads.push({ sinceMs, from })
        for (let at = 0; at < journal.length && reads.length === 1; at += BATCH) {
          await onMessages(await messagesOf(topic, journal.slice(at, at + BATCH)))
          rebuiltAfter.push(rebuilt.length)
        }
        return new Map([[0, BigInt(journal.length)]])
      },
    },
    tenants: { all: async () => tenants, add: async () => {}, activate: async () => {} },
    recoveryStore: {
      snapshotWallet: async tenant => ({ ...emptyWallet(tenant), ...wallet }),
      unlock: async tenant => {
        unlocked.push(tenant)
        return 'done'
      },
      rebuild: async (_term, job) => {
        rebuilt.push(job)
        return 'made'
      },
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
    journal: {
      lengths: async () => new Map(tenants.map(tenant =>
        [tenant, journal.filter(entry => entry.tenant === tenant).length])),
      readNewest: async () => [],
    },
    archive: {
      findAll: async (_tenants, jobs) => new Map(jobs.map(id =>
        [id, endedJob({ id, header: Buffer.alloc(0) })])),
    },
    history: { listAll: async () => [] },
    subscriptions: async () => [],
    emitter: { emit: async () => {} },
    log: { info: () => {}, warn: () => {}, error: () => {} },
    metrics: { count: () => {} },
    clock: createManualClock(NOW_MS),
    sleep: async () => {},
    graceMs: 1,
  }
  return { deps, unlocked, rebuilt, rebuiltAfter, reads }
}

describe('a recovery of wallets that Redis has lost', () => {
  it('unlocks those with most open jobs first, then those whose money moved last', async () => {
    // So many are unlocked concurrently; those with more to restore take longer.
    const names = [3, 1, 0].flatMap(openJobs => Array.from({ length: 32 }, (_, index) =>
      ({ openJobs, index, tenant: `org_${openJobs}_${index}.live` })))
    const { deps, unlocked } = setUp(names.toReversed().flatMap(({ tenant, openJobs, index }) =>
      journalOf(tenant, Array.from({ length: openJobs }, (_, job): Move =>
        ['reserve', `job_${tenant}_${job}`, 2]), NOW_MS - 1_000 * index)))
    await recover(deps, '1', { signal })
    expect(unlocked).toEqual(names.map(({ tenant }) => tenant))
  })

  it('writes ended jobs to Redis in batches while the journal is read', async () => {
    const { deps, unlocked, rebuilt, rebuiltAfter } = setUp(journalOf(TENANT,
      Array.from({ length: 2_500 }, (_, index): Move[] =>
        [['reserve', `job_${index}`, 2], ['settle', `job_${index}`, 2]]).flat()))
    await recover(deps, '1', { signal })
    expect([unlocked, rebuilt.length]).toEqual([[TENANT], 2_500])
    expect(new Set(rebuiltAfter).size).toBe(3)
  })

  it.each<readonly [string, Snapshot['open'], Partial<WalletSnapshot>, number | undefined]>([
    ['a day ago', [], {}, NOW_MS - 25 * 3_600_000],
    ['the oldest open job', [{ job: 'job_9', seq: 1, at: 4 * DAY_MS, amountMicros: 1 }], {},
      4 * DAY_MS],
    ['the snapshot alone if the wallet is there', [], { seq: 3 }, undefined],
  ])('reads the journal from %s', async (_, open, wallet, sinceMs) => {
    const snapshot: Snapshot = {
      tenant: TENANT,
      seq: 1,
      at: 5,
      ...post(ZERO_AMOUNTS, { type: 'topup', amountMicros: 9_000, chargeMicros: 0 }),
      open,
      posted: [],
      from: [7],
    }
    const journal = journalOf(TENANT, [['reserve', 'job_0', 2], ['settle', 'job_0', 2]])
    const { deps, reads } = setUp(journal, { wallet, snapshots: [snapshot] })
    await recover(deps, '1', { signal })
    expect(reads.slice(0, 2)).toEqual([
      { sinceMs, from: new Map([[0, 7n]]) }, { sinceMs: undefined, from: new Map([[0, 3n]]) },
    ])
  })
})
