import { describe, expect, it } from 'vitest'
import { createMovements } from '../../../../services/workspace/page/movements.ts'
import { acceptedJob, entryOf } from '../../../support/stage-doubles.ts'

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

describe('movements', () => {
  it('come by pages, newest first', async () => {
    const read = createMovements({
      readNewest: async (_tenant, { limit, before = Infinity }) =>
        entries.toReversed().filter(({ seq }) => seq < before).slice(0, limit),
    })
    const first = await read('org_1.live', { limit: 2, before: undefined })
    expect(first.movements.map(({ seq }) => seq)).toEqual([5, 4])
    expect(first.before).toBe(4)
    expect(first.movements[0]).toEqual({
      seq: 5,
      type: 'topup',
      job: '',
      amountMicros: 5,
      chargeMicros: 0,
      availableMicros: 7,
      reservedMicros: 0,
      atMs: 1_000,
      reason: 'test',
    })
    const last = await read('org_1.live', { limit: 3, before: 4 })
    expect([last.movements.map(({ seq }) => seq), last.before]).toEqual([[3, 2, 1], undefined])
  })
})
