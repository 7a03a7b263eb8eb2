import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import { Offsets } from '../../../../services/runtime/engine/offsets.ts'
import { rawMessage } from './engine-bench.ts'

const source = { topic: 'rows.submitted.small', partition: 0 }

describe('offsets', () => {
  it('commit up to the lowest pending message, in any order of completion', () => {
    const stream = fc.nat(20).chain(size => fc.shuffledSubarray([...Array(size).keys()]))
    fc.assert(fc.property(fc.nat(20), stream, (more, finished) => {
      const size = Math.max(0, ...finished.map(offset => offset + 1)) + more
      const messages = Array.from({ length: size }, (_, offset) => rawMessage(offset))
      const offsets = new Offsets()
      offsets.add(messages)
      for (const offset of finished) offsets.complete(messages[offset] as RawMessage)
      const held = messages.findIndex((_, offset) => !finished.includes(offset))
      const expected = BigInt(held === -1 ? size : held)
      expect(offsets.committable(source)).toBe(expected === 0n ? undefined : expected)
      expect(offsets.countPending()).toBe(size - finished.length)
    }))
  })

  it('do not commit an unchanged offset twice', () => {
    const offsets = new Offsets()
    offsets.add([rawMessage(5)])
    offsets.complete(rawMessage(5))
    expect(offsets.committable(source)).toBe(6n)
    offsets.committed(source, 6n)
    expect(offsets.committable(source)).toBeUndefined()
  })

  it('stop below a redelivered message', () => {
    const offsets = new Offsets()
    offsets.add([rawMessage(5), rawMessage(6), rawMessage(7)])
    offsets.complete(rawMessage(5))
    offsets.complete(rawMessage(7))
    offsets.rewind(source, 6n)
    expect(offsets.committable(source)).toBe(6n)
    offsets.add([rawMessage(6)])
    offsets.complete(rawMessage(6))
    expect(offsets.committable(source)).toBe(7n)
  })

  it('of partitions are independent, and unknown partitions have none', () => {
    const offsets = new Offsets()
    offsets.add([rawMessage(0)])
    expect(offsets.committable({ ...source, partition: 1 })).toBeUndefined()
    offsets.complete({ ...rawMessage(0), partition: 1 })
    expect(offsets.countPending()).toBe(1)
  })
})
