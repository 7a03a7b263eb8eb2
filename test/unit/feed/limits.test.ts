import { describe, expect, it } from 'vitest'
import { createBatch } from '../../../services/feed/cursor.ts'

const contact = (offset: number) => ({ offset, reference: `c${offset}`, input: '' })
const offsets = (contacts: readonly { readonly offset: number }[]) =>
  contacts.map(({ offset }) => offset)

describe('a batch of feed contacts', () => {
  it('closes at its maximum number of contacts, at its maximum age, and on close', () => {
    const batch = createBatch({ contacts: 3, ageMs: 100 })
    expect(batch.dueInMs(0)).toBe(Infinity)
    batch.add(contact(4), 1_000)
    batch.add(contact(6), 1_050)
    expect(batch.dueInMs(1_050)).toBe(50)
    expect(batch.dueInMs(1_100)).toBe(0)
    batch.add(contact(9), 1_051)
    expect(batch.dueInMs(1_051)).toBe(0)
    batch.passTo(6)
    expect(batch.dueInMs(1_051)).toBe(100)
    batch.close()
    expect(batch.dueInMs(1_051)).toBe(0)
    batch.passTo(9)
    batch.add(contact(11), 1_200)
    expect(batch.dueInMs(1_200)).toBe(100)
  })

  it('removes contacts up to an offset, in order', () => {
    const batch = createBatch({ contacts: 10, ageMs: 100 })
    for (const offset of [1, 3, 5, 8]) batch.add(contact(offset), 0)
    expect(offsets(batch.first(2))).toEqual([1, 3])
    expect(offsets(batch.passTo(4))).toEqual([1, 3])
    expect(offsets(batch.passTo(4))).toEqual([])
    expect(batch.size()).toBe(2)
    expect(offsets(batch.passTo(99))).toEqual([5, 8])
    expect(batch.size()).toBe(0)
  })
})
