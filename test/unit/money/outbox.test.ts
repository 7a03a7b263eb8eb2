import { describe, expect, it } from 'vitest'
import { entryOf, integer, pendingSeq } from '../../../services/money/wallet.ts'

const fields = {
  tenant: 'org_1.live',
  seq: '2',
  entryId: 'job_1:reserve',
  type: 'reserve',
  job: 'job_1',
  amountMicros: '123456789012345',
  chargeMicros: '0',
  availableMicros: '1',
  reservedMicros: '123456789012345',
  chargedMicros: '0',
  fundedMicros: '123456789012346',
  at: '1700000000000',
  reason: '',
  header: 'AQI=',
}

describe('an entry of the outbox', () => {
  it('has its numbers and its header back', () => {
    expect(entryOf(JSON.stringify(fields))).toEqual({
      ...fields,
      seq: 2,
      amountMicros: 123_456_789_012_345,
      chargeMicros: 0,
      availableMicros: 1,
      reservedMicros: 123_456_789_012_345,
      chargedMicros: 0,
      fundedMicros: 123_456_789_012_346,
      at: 1_700_000_000_000,
      header: Buffer.from([1, 2]),
    })
    expect(entryOf(JSON.stringify({ ...fields, header: '' })).header).toBeNull()
  })

  it.each(['1e+14', '1.5', '', ' 1', '9007199254740992', undefined])(
    'takes %s for no number', text => {
      expect(() => integer(text)).toThrow('not a safe integer')
    })

  it.each([
    ['entry:12', 12], ['seq', undefined], ['available', undefined], ['entry:', undefined],
  ] as const)('in the field %s of a wallet has the number %s', (field, seq) => {
    expect(pendingSeq(field)).toBe(seq)
  })
})
