import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../../schemas/types.ts'
import { application, JOB_ID, NOW_MS } from '../doubles.ts'

const entryOf = (seq: number, more: Partial<Journal> = {}): Journal => ({
  tenant: 'org_01.live',
  seq,
  entryId: `entry-${seq}`,
  type: 'settle',
  job: JOB_ID,
  amountMicros: 6_000,
  chargeMicros: 4_000,
  availableMicros: 96_000,
  reservedMicros: 2_000,
  chargedMicros: 40_000,
  fundedMicros: 138_000,
  at: NOW_MS,
  reason: 'internal terms',
  header: Buffer.from('sealed'),
  ...more,
})

async function ask (query: string, entries: readonly Journal[]) {
  const asked: unknown[] = []
  const { get } = application({
    transactions: async (tenant, options) => {
      asked.push([tenant, options])
      return entries
    },
  })
  return { answer: await get(`/transactions${query}`), asked }
}

describe('the list of transactions', () => {
  it('shows amounts, balances, job and time of each, and nothing internal', async () => {
    const topup = entryOf(1, { type: 'topup', job: '', reason: 'paid by invoice', chargeMicros: 0 })
    const { answer, asked } = await ask('', [entryOf(2), topup])
    expect(asked).toEqual([['org_01.live', { limit: 21, before: undefined, type: undefined }]])
    const { data, ...page } = answer.json()
    expect(data[0]).toEqual({
      id: 'txn_2',
      type: 'settle',
      amountMicros: 6_000,
      chargedMicros: 4_000,
      availableMicros: 96_000,
      reservedMicros: 2_000,
      balanceMicros: 98_000,
      jobId: JOB_ID,
      createdAt: '2026-08-11T10:00:00.000Z',
    })
    expect(data[1]).toMatchObject({ id: 'txn_1', type: 'topup', jobId: null })
    expect(page).toEqual({ has_more: false, next_cursor: null })
    expect(answer.body).not.toMatch(/internal|invoice|sealed|entry-/)
  })
})
