import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createAggregate } from '../../../services/engine/aggregate.ts'

type Message = { readonly unit: string, readonly index: number, readonly size: number }

const createTestAggregate = () => createAggregate<Message>({
  unitOf: ({ unit }) => unit, indexOf: ({ index }) => index, sizeOf: ({ size }) => size,
})

/** Messages of several units: each index at least once, some twice, all shuffled. */
const streams = fc.array(fc.integer({ min: 1, max: 5 }), { minLength: 1, maxLength: 4 })
  .chain(sizes => {
    const once = sizes.flatMap((size, unit) =>
      Array.from({ length: size }, (_, index) => ({ unit: `u${unit}`, index, size })))
    return fc.subarray(once).chain(twice => {
      const all = [...once, ...twice.map(message => ({ ...message }))]
      return fc.shuffledSubarray(all, { minLength: all.length })
    })
  })

describe('an aggregate', () => {
  it('completes each unit exactly once, sorted, in any order and with duplicates', () => {
    fc.assert(fc.property(streams, stream => {
      const aggregate = createTestAggregate()
      const complete = new Map<string, readonly number[]>()
      for (const message of stream) {
        const unit = aggregate.add(message)
        if (complete.has(message.unit)) continue
        if (unit !== undefined) complete.set(message.unit, unit.messages.map(({ index }) => index))
      }
      const sizes = new Map(stream.map(({ unit, size }) => [unit, size]))
      expect(complete.size).toBe(sizes.size)
      for (const [unit, indexes] of complete) {
        expect(indexes).toEqual(Array.from({ length: sizes.get(unit) ?? 0 }, (_, index) => index))
      }
    }))
  })

  it('has all messages as members, so that none is held forever', () => {
    fc.assert(fc.property(streams, stream => {
      const aggregate = createTestAggregate()
      for (const message of stream) aggregate.add(message)
      for (const message of stream) expect(aggregate.membersOf(message)).toContain(message)
      const last = stream.at(-1) as Message
      const ofUnit = stream.filter(({ unit }) => unit === last.unit)
      expect(new Set(aggregate.add(last)?.members)).toEqual(new Set(ofUnit))
    }))
  })

  it('keeps a complete unit until it is removed, and the first message of an index', () => {
    const aggregate = createTestAggregate()
    const [a, again, b] = [0, 0, 1].map(index => ({ unit: 'u', index, size: 2 })) as
      [Message, Message, Message]
    expect(aggregate.add(a)).toBeUndefined()
    expect(aggregate.add(again)).toBeUndefined()
    const unit = aggregate.add(b)
    expect(unit?.messages[0]).toBe(a)
    expect(unit?.members).toHaveLength(3)
    expect(aggregate.add(b)).toEqual(unit)
    aggregate.remove(b)
    expect(aggregate.add(b)).toBeUndefined()
  })

  it('drops all units on clear', () => {
    const aggregate = createTestAggregate()
    aggregate.add({ unit: 'u', index: 0, size: 2 })
    aggregate.clear()
    expect(aggregate.add({ unit: 'u', index: 1, size: 2 })).toBeUndefined()
  })

  it('rejects an index outside its unit', () => {
    expect(() => createTestAggregate().add({ unit: 'u', index: 2, size: 2 })).toThrow(RangeError)
    expect(() => createTestAggregate().add({ unit: 'u', index: -1, size: 2 })).toThrow(RangeError)
  })
})
