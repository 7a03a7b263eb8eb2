import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import {
  createJournalState, snapshotOf, applyEntry, type JournalRetention, readJournal,
  type TrackedJournal,
} from '../../../services/ledger/journal-state.ts'
import { endedJob, codec } from '../../support/clickhouse/results.ts'
import { entryOf, TENANT } from '../../support/stage-doubles.ts'
import type { RawMessage } from '../../../services/runtime/kafka/bus.ts'

/** A job that reserved nothing at a moment of its own, and its end; two entries each. */
const jobAt = (job: string, firstSeq: number, at: number): readonly Journal[] => {
  const free = { amountMicros: 0, reservedMicros: 0, fundedMicros: 0, job, at }
  const entry = { ...entryOf(TENANT, endedJob()), ...free }
  return [
    { ...entry, seq: firstSeq, entryId: `${job}:reserve` },
    { ...entry, seq: firstSeq + 1, type: 'settle', entryId: `${job}:settle` },
  ]
}
const entries = [...jobAt('a', 1, 10), ...jobAt('b', 3, 20), ...jobAt('c', 5, 30)]

const NONE: JournalRetention = { seq: 6, openJobs: new Set(), sinceMs: 0 }

it.each<[string, JournalRetention, readonly string[]]>([
  ['that Redis has not heard of', { ...NONE, seq: 2 }, ['b', 'c']],
  ['whose end Redis has not heard of', { ...NONE, seq: 3 }, ['b', 'c']],
  ['of the last day', { ...NONE, seq: 0, sinceMs: 20 }, ['b', 'c']],
  ['older ones that Redis takes for open',
    { seq: 0, openJobs: new Set(['a']), sinceMs: 30 }, ['a', 'c']],
  ['none that Redis knows', { ...NONE, openJobs: new Set(['a']) }, []],
])('of ended jobs those are remembered %s', (_, retention, remembered) => {
  const journal = createJournalState(retention)
  for (const entry of entries) applyEntry(journal, entry, retention)
  expect([journal.faults, [...journal.ended.keys()], journal.open.size])
    .toEqual([[], remembered, 0])
  expect([...journal.endedOpen]).toEqual([...retention.openJobs])
})

describe('a journal that begins with a snapshot', () => {
  const snapshotAfter = (seq: number) => {
    const journal = createJournalState(NONE)
    for (const entry of entries.slice(0, seq)) applyEntry(journal, entry, NONE)
    return snapshotOf(journal, { tenant: TENANT, from: [7] })
  }

  it('continues where it ended, whatever is repeated before that', () => {
    for (let seq = 0; seq <= entries.length; seq += 1) {
      const journal = createJournalState(NONE, snapshotAfter(seq))
      for (const entry of entries.slice(Math.max(0, seq - 2))) applyEntry(journal, entry, NONE)
      expect([journal.seq, journal.at, journal.faults, journal.open.size, journal.afterGap.size])
        .toEqual([6, 30, [], 0, 0])
      expect(snapshotOf(journal, { tenant: TENANT, from: [7] })).toEqual(snapshotAfter(6))
    }
  })

  it('recalls jobs that Redis lacks from entries before it, in whatever order', () => {
    const lost: JournalRetention = { ...NONE, seq: 0 }
    const journal = createJournalState(lost, snapshotAfter(5))
    expect([...journal.open.values()]).toEqual([{ job: 'c', seq: 5, at: 30, amountMicros: 0 }])
    for (const seq of [3, 2, 4, 5, 3]) applyEntry(journal, entries[seq - 1]!, lost)
    expect([...journal.ended].map(([job, { reserve, end }]) => [job, reserve?.seq, end.seq]))
      .toEqual([['b', 3, 4]])
    expect(journal.open.get('c')?.entry?.seq).toBe(5)
    expect([journal.seq, journal.faults]).toEqual([5, []])
  })
})

const NOTHING: JournalRetention = { seq: 0, openJobs: new Set(), sinceMs: 0 }
const topUp = (tenant: string, seq: number): Journal => ({
  ...entryOf(tenant, endedJob()),
  seq,
  type: 'topup',
  job: '',
  entryId: `topup:${seq}`,
  amountMicros: 10,
  availableMicros: 10 * seq,
  reservedMicros: 0,
  fundedMicros: 10 * seq,
})

/** A topic of batches of entries; null is a message without a value. Each entry has an offset. */
const readerOf = (batches: readonly (readonly (Journal | null)[])[]) => ({
  read: async (topic: string, onMessages: (messages: readonly RawMessage[]) => unknown) => {
    expect(topic).toBe('wallet.journal')
    let offset = 0n
    for (const batch of batches) {
      await onMessages(await Promise.all(batch.map(async entry => ({
        value: entry && await codec.encode('wallet.journal-value', entry),
        partition: 1,
        offset: offset++,
      } as RawMessage))))
    }
    return new Map([[0, 4n], [1, offset]])
  },
})

const { signal } = new AbortController()

/** Tracks every tenant but `untracked`. */
function createTracker (retentions: Readonly<Record<string, JournalRetention>> = {}) {
  const tracked = new Map<string, TrackedJournal>()
  const applied: string[][] = []
  return {
    tracked,
    applied,
    onTenants: async (tenants: ReadonlySet<string>) => {
      for (const tenant of tenants) {
        if (tracked.has(tenant) || tenant === 'untracked') continue
        const retention = retentions[tenant] ?? NOTHING
        tracked.set(tenant, { retention, journal: createJournalState(retention) })
      }
    },
    trackedOf: (tenant: string) => tracked.get(tenant),
    onApplied: async (tenants: ReadonlySet<string>) => { applied.push([...tenants]) },
    signal,
  }
}

describe('readJournal', () => {
  it('applies the entries of each tenant in any order, over all batches', async () => {
    const reader = readerOf([
      [topUp('a', 2), topUp('b', 1), null], [topUp('a', 1), topUp('untracked', 1), topUp('a', 1)],
    ])
    const tracker = createTracker({ a: { ...NOTHING, seq: 1 } })
    expect([...await readJournal({ reader, codec }, tracker)]).toEqual([[0, 4n], [1, 6n]])
    const { tracked, applied } = tracker
    expect([...tracked].map(([tenant, { journal: { seq, amounts, faults } }]) =>
      [tenant, seq, amounts.availableMicros, faults])).toEqual([['a', 2, 20, []], ['b', 1, 10, []]])
    expect(tracked.get('a')?.journal.amountsAtWalletSeq?.fundedMicros).toBe(10)
    expect([...tracked.get('a')!.journal.posted.values()]).toEqual([
      { id: 'topup:1', seq: 1, amountMicros: 10 }, { id: 'topup:2', seq: 2, amountMicros: 10 },
    ])
    expect(applied).toEqual([['a', 'b'], ['a', 'untracked']])
  })

  it('continues from the first entry after a gap while there is one', async () => {
    const some = [topUp('a', 1), topUp('a', 3), topUp('a', 4), topUp('b', 2)]
    const reader = readerOf([some, [topUp('b', 1)]])
    expect((await readJournal({ reader, codec }, createTracker())).get(1)).toBe(1n)
    const filled = readerOf([some, [topUp('b', 1), topUp('a', 2)]])
    expect((await readJournal({ reader: filled, codec }, createTracker())).get(1)).toBe(6n)
  })

  it('rejects when the journal cannot be read to its end', async () => {
    const reader = { read: async () => { throw new Error('no broker') } }
    await expect(readJournal({ reader, codec }, createTracker())).rejects.toThrow('no broker')
  })
})
