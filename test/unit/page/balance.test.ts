import { describe, expect, it } from 'vitest'
import { readMovements } from '../../../services/page/balance.ts'
import { acceptedJob, entryOf } from '../../support/stage-doubles.ts'

const entries = [1, 2, 3, 4, 5].map(seq => ({
  ...entryOf('org_1.live', acceptedJob()),
  seq,
  type: 'topup',
  job: '',
  amountMicros: 5,
  chargeMicros: 0,
  availableMicros: 7,
  reservedMicros: 0,
  at: 1_000,
  reason: 'test',
}))

type Cursor = { readonly limit: number, readonly before?: number | undefined }

describe('the movements of a balance', () => {
  it('are read page by page, newest first', async () => {
    const journal = {
      readNewest: async (_tenant: string, { limit, before = Infinity }: Cursor) =>
        entries.toReversed().filter(({ seq }) => seq < before).slice(0, limit),
    }
    const first = await readMovements(journal, 'org_1.live', { limit: 2, before: undefined })
    expect(first.movements.map(({ seq }) => seq)).toEqual([5, 4])
    expect(first.before).toBe(4)
    expect(first.movements[0]).toMatchObject({
      seq: 5,
      type: 'topup',
      job: '',
      amountMicros: 5,
      chargeMicros: 0,
      availableMicros: 7,
      reservedMicros: 0,
      at: 1_000,
      reason: 'test',
    })
    const last = await readMovements(journal, 'org_1.live', { limit: 3, before: 4 })
    expect([last.movements.map(({ seq }) => seq), last.before]).toEqual([[3, 2, 1], undefined])
  })
})
