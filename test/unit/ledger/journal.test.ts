import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { RawMessage } from '../../../services/kafka/bus.ts'
import { readJournal } from '../../../services/ledger/journal.ts'
import { beginFold, type Interest } from '../../../services/ledger/journal-fold.ts'
import type { Followed } from '../../../services/ledger/journal.ts'
import { codec, endedJob } from '../../support/results.ts'
import { entryOf } from '../../support/stage-doubles.ts'

const NONE: Interest = { seq: 0, openJobs: new Set(), sinceMs: 0 }
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

/** What is followed of tenants, from when they are met on; nobody follows `nobody`. */
function follow (interests: Readonly<Record<string, Interest>> = {}) {
  const followed = new Map<string, Followed>()
  const taken: string[][] = []
  return {
    followed,
    taken,
    meet: async (tenants: ReadonlySet<string>) => {
      for (const tenant of tenants) {
        if (followed.has(tenant) || tenant === 'nobody') continue
        const interest = interests[tenant] ?? NONE
        followed.set(tenant, { interest, fold: beginFold(interest) })
      }
    },
    followedOf: (tenant: string) => followed.get(tenant),
    onTaken: async (tenants: ReadonlySet<string>) => { taken.push([...tenants]) },
    signal,
  }
}

describe('the journal', () => {
  it('is folded by tenant, over all batches, in whatever order', async () => {
    const reader = readerOf([
      [topUp('a', 2), topUp('b', 1), null], [topUp('a', 1), topUp('nobody', 1), topUp('a', 1)],
    ])
    const following = follow({ a: { ...NONE, seq: 1 } })
    expect([...await readJournal({ reader, codec }, following)]).toEqual([[0, 4n], [1, 6n]])
    const { followed, taken } = following
    expect([...followed].map(([tenant, { fold: { seq, amounts, faults } }]) =>
      [tenant, seq, amounts.availableMicros, faults])).toEqual([['a', 2, 20, []], ['b', 1, 10, []]])
    expect(followed.get('a')?.fold.atInterest?.fundedMicros).toBe(10)
    expect([...followed.get('a')!.fold.posted.values()]).toEqual([
      { id: 'topup:1', seq: 1, amountMicros: 10 }, { id: 'topup:2', seq: 2, amountMicros: 10 },
    ])
    expect(taken).toEqual([['a', 'b'], ['a', 'nobody']])
  })

  it('is to be read on from the first entry behind a gap, as long as there is one', async () => {
    const some = [topUp('a', 1), topUp('a', 3), topUp('a', 4), topUp('b', 2)]
    const reader = readerOf([some, [topUp('b', 1)]])
    expect((await readJournal({ reader, codec }, follow())).get(1)).toBe(1n)
    const filled = readerOf([some, [topUp('b', 1), topUp('a', 2)]])
    expect((await readJournal({ reader: filled, codec }, follow())).get(1)).toBe(6n)
  })

  it('that cannot be read to its end is no journal', async () => {
    const reader = { read: async () => { throw new Error('no broker') } }
    await expect(readJournal({ reader, codec }, follow())).rejects.toThrow('no broker')
  })
})
