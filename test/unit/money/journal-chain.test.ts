import { describe, expect, it } from 'vitest'
import {
  canonicalText, extendChain, hashAfter, CHAIN_START,
} from '../../../services/money/journal-chain.ts'
import type { Journal } from '../../../schemas/types.ts'

const entry = (seq: number, change: Partial<Journal> = {}): Journal => ({
  tenant: 'org_1.live',
  seq,
  entryId: `top-${seq}`,
  type: 'topup',
  job: '',
  amountMicros: 5,
  chargeMicros: 0,
  availableMicros: 5 * seq,
  reservedMicros: 0,
  chargedMicros: 0,
  fundedMicros: 5 * seq,
  at: 1_700_000_000_000,
  reason: 'gift',
  header: null,
  ...change,
})

describe('the chain of the journal', () => {
  it('has a text and a first hash that never change', () => {
    expect(canonicalText(entry(1, { header: Buffer.from('sealed') }))).toBe(
      '[1,"org_1.live",1,"top-1","topup","",5,0,5,0,0,5,1700000000000,"gift",' +
      '"c9d0036bed6744bcdf692fc980d8717d7e5f5a4f4e8266b4a84982602fb1cd09"]')
    expect(extendChain(CHAIN_START, entry(1)).hash)
      .toBe('b4674e6439d9c541132e369cd11da5520794f7ea27faf92f8b789f6b8d8180bb')
  })

  it('depends on every field and on the entry before', () => {
    const changes: Partial<Journal>[] = [
      { tenant: 'x' }, { seq: 2 }, { entryId: 'x' }, { type: 'adjust' }, { job: 'x' },
      { amountMicros: 6 }, { chargeMicros: 1 }, { availableMicros: 6 }, { reservedMicros: 1 },
      { chargedMicros: 1 }, { fundedMicros: 6 }, { at: 1 }, { reason: 'x' },
      { header: Buffer.from('x') }, { header: Buffer.from('y') },
    ]
    const hashes = [entry(1), ...changes.map(change => entry(1, change))]
      .map(one => hashAfter(CHAIN_START.hash, canonicalText(one)))
    const later = hashAfter(hashes[0]!, canonicalText(entry(1)))
    expect(new Set([...hashes, later]).size).toBe(17)
  })

  const headOf = (...seqs: readonly number[]) =>
    seqs.reduce((head, seq) => extendChain(head, entry(seq)), CHAIN_START)

  it('is the same though entries are repeated', () => {
    expect(headOf(1, 1, 2, 1, 3, 3)).toEqual(headOf(1, 2, 3))
    expect(headOf(1, 2, 3)).toMatchObject({ seq: 3, missing: [] })
  })

  it('continues after gaps, and its head names what was missing', () => {
    const texts = [3, 4, 7].map(seq => canonicalText(entry(seq)))
    expect(headOf(3, 4, 7)).toEqual({
      seq: 7, hash: texts.reduce(hashAfter, CHAIN_START.hash), missing: [[1, 2], [5, 6]],
    })
  })
})
