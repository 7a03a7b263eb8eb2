import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  canonicalText, continueChain, GENESIS, nextHash, START,
} from '../../../services/records/journal-chain.ts'
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
    expect(nextHash(GENESIS, entry(1)))
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
      .map(one => nextHash(GENESIS, one))
    expect(new Set([...hashes, nextHash(hashes[0] ?? '', entry(1))]).size).toBe(17)
  })

  it('is the same in whatever order, pieces and repetitions entries come', () => {
    const all = [1, 2, 3, 4, 5, 6].map(seq => entry(seq))
    const whole = continueChain(START, all)
    expect(whole.links.map(({ entry: { seq } }) => seq)).toEqual([1, 2, 3, 4, 5, 6])
    fc.assert(fc.property(
      fc.shuffledSubarray([...all, ...all], { minLength: 12 }), fc.nat(6), (mixed, split) => {
        const first = continueChain(START, all.slice(0, split))
        const second = continueChain(first.head, mixed)
        expect([...first.links, ...second.links]).toEqual(whole.links)
        expect(second.head).toEqual(whole.head)
      }))
  })

  it('takes nothing beyond a gap', () => {
    const { links, head } = continueChain(START, [entry(1), entry(3)])
    expect(links).toHaveLength(1)
    expect(head).toEqual({ seq: 1, hash: nextHash(GENESIS, entry(1)) })
  })
})
