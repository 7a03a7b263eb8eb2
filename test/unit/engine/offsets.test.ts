import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RawMessage } from '../../../services/kafka/bus.ts'
import { createOffsets } from '../../../services/engine/offsets.ts'
import { rawMessage } from './engine-bench.ts'

const place = { topic: 'rows.submitted.small', partition: 0 }

describe('offsets', () => {
  it('commit to the lowest held message, whatever order the others finish in', () => {
    const stream = fc.nat(20).chain(size => fc.shuffledSubarray([...Array(size).keys()]))
    fc.assert(fc.property(fc.nat(20), stream, (more, finished) => {
      const size = Math.max(0, ...finished.map(offset => offset + 1)) + more
      const messages = Array.from({ length: size }, (_, offset) => rawMessage(offset))
      const offsets = createOffsets()
      offsets.begin(messages)
      for (const offset of finished) offsets.finish(messages[offset] as RawMessage)
      const held = messages.findIndex((_, offset) => !finished.includes(offset))
      const expected = BigInt(held === -1 ? size : held)
      expect(offsets.toCommit(place)).toBe(expected === 0n ? undefined : expected)
      expect(offsets.unfinished()).toBe(size - finished.length)
    }))
  })

  it('do not commit twice what has not moved', () => {
    const offsets = createOffsets()
    offsets.begin([rawMessage(5)])
    offsets.finish(rawMessage(5))
    expect(offsets.toCommit(place)).toBe(6n)
    offsets.committed(place, 6n)
    expect(offsets.toCommit(place)).toBeUndefined()
  })

  it('stop below what is handed over again', () => {
    const offsets = createOffsets()
    offsets.begin([rawMessage(5), rawMessage(6), rawMessage(7)])
    offsets.finish(rawMessage(5))
    offsets.finish(rawMessage(7))
    offsets.rewind(place, 6n)
    expect(offsets.toCommit(place)).toBe(6n)
    offsets.begin([rawMessage(6)])
    offsets.finish(rawMessage(6))
    expect(offsets.toCommit(place)).toBe(7n)
  })

  it('of partitions are independent, and unknown places have none', () => {
    const offsets = createOffsets()
    offsets.begin([rawMessage(0)])
    expect(offsets.toCommit({ ...place, partition: 1 })).toBeUndefined()
    offsets.finish({ ...rawMessage(0), partition: 1 })
    expect(offsets.unfinished()).toBe(1)
  })
})
