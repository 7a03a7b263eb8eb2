import { describe, expect, it } from 'vitest'
import { createMovements } from '../../../../services/workspace/page/movements.ts'

const row = (seq: number) => ({
  seq: String(seq),
  type: 'topup',
  job: '',
  amount_micros: '5',
  charge_micros: '0',
  available_micros: '7',
  reserved_micros: '0',
  at: '1000',
  reason: 'test',
})

describe('movements', () => {
  it('come by pages, newest first', async () => {
    const asked: unknown[] = []
    const all = [5, 4, 3, 2, 1]
    const query = async ({ query_params: given }: { query_params: Record<string, number> }) => {
      asked.push(given)
      const { before = 0, limit } = given
      return { json: async () => all.filter(seq => seq < before).slice(0, limit).map(row) }
    }
    const read = createMovements({ query } as never)
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
    expect(asked).toContainEqual({ tenant: 'org_1.live', before: 4, limit: 4 })
  })
})
