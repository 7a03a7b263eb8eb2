import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { RawMessage } from '../../../services/kafka/bus.ts'
import {
  readJournal, createJournalState, type JournalRetention, type TrackedJournal,
} from '../../../services/ledger/journal-state.ts'
import { codec, endedJob } from '../../support/results.ts'
import { entryOf } from '../../support/stage-doubles.ts'

const NONE: JournalRetention = { seq: 0, openJobs: new Set(), sinceMs: 0 }
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
        const retention = retentions[tenant] ?? NONE
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
    const tracker = createTracker({ a: { ...NONE, seq: 1 } })
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
