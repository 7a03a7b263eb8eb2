import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import type { RawMessage } from '../../../services/lib/bus.ts'
import { readJournal } from '../../../services/ledger/journal.ts'
import type { Interest } from '../../../services/ledger/journal-fold.ts'
import { codec, endedJob } from '../../support/results.ts'
import { entryOf } from '../../support/stage-doubles.ts'

const NONE: Interest = { seq: 0, openJobs: new Set() }
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

/** A topic of batches of entries; null is a message without a value. */
const readerOf = (batches: readonly (readonly (Journal | null)[])[]) => ({
  read: async (topic: string, onMessages: (messages: readonly RawMessage[]) => unknown) => {
    expect(topic).toBe('wallet.journal')
    for (const batch of batches) {
      await onMessages(await Promise.all(batch.map(async entry => ({
        value: entry && await codec.encode('wallet.journal-value', entry),
      } as RawMessage))))
    }
  },
})

describe('the journal', () => {
  const { signal } = new AbortController()

  it('is folded by tenant, over all batches, in whatever order', async () => {
    const reader = readerOf([
      [topUp('a', 2), topUp('b', 1), null], [topUp('a', 1), topUp('a', 1), topUp('a', 4)],
    ])
    const asked: string[] = []
    const interestOf = (tenant: string) => {
      asked.push(tenant)
      return tenant === 'a' ? { ...NONE, seq: 1 } : NONE
    }
    const folds = await readJournal({ reader, codec }, { interestOf, signal })
    expect([...folds].map(([tenant, { seq, amounts, held, faults }]) =>
      [tenant, seq, amounts.availableMicros, [...held.keys()], faults])).toEqual([
      ['a', 2, 20, [4], []], ['b', 1, 10, [], []],
    ])
    expect(folds.get('a')?.atInterest?.fundedMicros).toBe(10)
    expect([...folds.get('a')!.posted]).toEqual([['topup:1', '1:10'], ['topup:2', '2:10']])
    expect([...new Set(asked)].toSorted()).toEqual(['a', 'b'])
  })

  it('that cannot be read to its end is no journal', async () => {
    const reader = { read: async () => { throw new Error('no broker') } }
    await expect(readJournal({ reader, codec }, { interestOf: () => NONE, signal }))
      .rejects.toThrow('no broker')
  })
})
