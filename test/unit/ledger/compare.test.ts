import { describe, expect, it } from 'vitest'
import type { Journal, Snapshot } from '../../../schemas/types.ts'
import { compare, type CompareDeps } from '../../../services/ledger/compare.ts'
import type { WalletSnapshot, RebuiltJob } from '../../../services/ledger/recovery-store.ts'
import { NO_BASE } from '../../../services/ledger/snapshots.ts'
import type { ReadLimits } from '../../../services/runtime/kafka/topic-reader.ts'
import { type Amounts, post, ZERO_AMOUNTS } from '../../../services/money/prices.ts'
import { codec, endedJob } from '../../support/clickhouse/results.ts'
import { createManualClock, TENANT } from '../../support/stage-doubles.ts'
import { emptyWallet } from '../../support/recovery/wallet-snapshot.ts'

const DAY_MS = 86_400_000
const NOW_MS = 100 * DAY_MS
const { signal } = new AbortController()

type Movement = Pick<Journal, 'type' | 'job' | 'amountMicros'>

/** A top-up, and so many jobs that reserved and were charged all of it. */
function journalOf (jobs: number): readonly Journal[] {
  let amounts: Amounts = ZERO_AMOUNTS
  const entry = (seq: number, movement: Movement): Journal => {
    const chargeMicros = movement.type === 'settle' ? movement.amountMicros : 0
    amounts = post(amounts, { ...movement, chargeMicros })
    const entryId = `${movement.job}:${movement.type}`
    const more = { tenant: TENANT, at: NOW_MS - 1, reason: '{}', header: null }
    return { ...movement, ...amounts, ...more, chargeMicros, entryId, seq }
  }
  const funded = entry(1, { type: 'topup', job: '', amountMicros: 9_000 })
  return [funded, ...Array.from({ length: jobs }, (_, index) => {
    const job = { job: `job_${index}`, amountMicros: 2 }
    return [entry(2 * index + 2, { type: 'reserve', ...job }),
      entry(2 * index + 3, { type: 'settle', ...job })]
  }).flat()]
}

function setUp (journal: readonly Journal[], wallet: Partial<WalletSnapshot> = {}) {
  const rebuilt: RebuiltJob[] = []
  const read: ReadLimits[] = []
  const rebuiltPerBatch: number[] = []
  const walletSnapshot = { ...emptyWallet(TENANT), ...wallet }
  const deps: CompareDeps = {
    codec,
    reader: {
      read: async (_topic, onMessages, { sinceMs, from } = {}) => {
        read.push({ sinceMs, from })
        for (let at = 0; at < journal.length && read.length === 1; at += 100) {
          await onMessages(await Promise.all(journal.slice(at, at + 100).map(async entry => ({
            value: await codec.encode('wallet.journal-value', entry), partition: 0, offset: 0n,
          }))) as never)
          rebuiltPerBatch.push(rebuilt.length)
        }
        return new Map([[0, BigInt(journal.length)]])
      },
    },
    tenants: { all: async () => [TENANT], add: async () => {} },
    recoveryStore: {
      snapshotWallet: async () => walletSnapshot,
      unlock: async () => 'done',
      rebuild: async (_term, job) => {
        rebuilt.push(job)
        return 'made'
      },
    },
    journal: {
      lengths: async () => new Map([[TENANT, journal.length]]),
      readNewest: async () => journal.slice(-1),
    },
    archive: {
      findAll: async (_tenants, jobs) => new Map(jobs.map(id =>
        [id, endedJob({ id, header: Buffer.alloc(0) })])),
    },
    history: { listAll: async () => [] },
    subscriptions: async () => [],
    emitter: { emit: async () => {} },
    log: { error: () => {} },
    metrics: { count: () => {} },
    clock: createManualClock(NOW_MS),
    sleep: async () => {},
    graceMs: 1,
  }
  return { parts: deps, rebuilt, read, rebuiltPerBatch }
}

describe('compare, after Redis has lost a wallet', () => {
  it('writes ended jobs to Redis in batches while the journal is read', async () => {
    const { parts, rebuilt, rebuiltPerBatch } = setUp(journalOf(2_500))
    const { compared } = await compare(parts, { fence: '1', base: NO_BASE, signal })
    const [{ journal } = { journal: undefined }] = compared
    expect([journal?.seq, journal?.beforeSnapshot.size, journal?.faults]).toEqual([5_001, 0, []])
    expect(rebuilt.length + (journal?.ended.size ?? 0)).toBe(2_500)
    expect(journal?.ended.size).toBeLessThan(1_000)
    expect(new Set(rebuiltPerBatch).size).toBe(3)
  })

  it('reads the journal from a day ago, or from the oldest open job', async () => {
    const snapshot: Snapshot = {
      tenant: TENANT,
      seq: 1,
      at: 5,
      ...post(ZERO_AMOUNTS, { type: 'topup', amountMicros: 9_000, chargeMicros: 0 }),
      open: [],
      posted: [],
      from: [],
    }
    const baseOf = (open: Snapshot['open']) => ({
      byTenant: new Map([[TENANT, JSON.stringify({ ...snapshot, open })]]),
      from: new Map([[0, 7n]]),
    })
    const journal = journalOf(1)
    const { parts, read } = setUp(journal)
    await compare(parts, { fence: '1', base: baseOf([]), signal })
    expect(read).toEqual([
      { sinceMs: NOW_MS - 25 * 3_600_000, from: new Map([[0, 7n]]) },
      { sinceMs: undefined, from: new Map([[0, 3n]]) },
    ])
    const other = setUp(journal)
    const open = [{ job: 'job_9', seq: 1, at: 4 * DAY_MS, amountMicros: 1 }]
    await compare(other.parts, { fence: '1', base: baseOf(open), signal })
    expect(other.read[0]?.sinceMs).toBe(4 * DAY_MS)
    const known = setUp(journal, { seq: 3 })
    await compare(known.parts, { fence: '1', base: baseOf([]), signal })
    expect(known.read[0]?.sinceMs).toBe(undefined)
  })
})
