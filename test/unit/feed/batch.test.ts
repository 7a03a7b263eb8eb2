import { describe, expect, it } from 'vitest'
import { createBatch } from '../../../services/feed/batch.ts'
import { createRoom } from '../../../services/feed/room.ts'

const contact = (offset: number) => ({ offset, reference: `c${offset}`, input: '' })
const offsets = (contacts: readonly { readonly offset: number }[]) =>
  contacts.map(({ offset }) => offset)

describe('a batch', () => {
  it('closes with its last contact, at its age, or when it is told to', () => {
    const batch = createBatch({ limit: 3, ageMs: 100 })
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

  it('lets go of contacts up to an offset, in their order', () => {
    const batch = createBatch({ limit: 10, ageMs: 100 })
    for (const offset of [1, 3, 5, 8]) batch.add(contact(offset), 0)
    expect(offsets(batch.first(2))).toEqual([1, 3])
    expect(offsets(batch.passTo(4))).toEqual([1, 3])
    expect(offsets(batch.passTo(4))).toEqual([])
    expect(batch.size()).toBe(2)
    expect(offsets(batch.passTo(99))).toEqual([5, 8])
    expect(batch.size()).toBe(0)
  })
})

describe('room', () => {
  const never = new AbortController().signal

  it('is waited for while it is taken', async () => {
    const room = createRoom(2)
    await room.free(never)
    room.take(3)
    let isFree = false
    const waiting = room.free(never).then(() => { isFree = true })
    room.release(1)
    await Promise.resolve()
    expect([isFree, room.taken()]).toEqual([false, 2])
    room.release(1)
    await waiting
    expect(isFree).toBe(true)
  })

  it('is not waited for by who is told to stop', async () => {
    const room = createRoom(1)
    room.take(1)
    const stopping = new AbortController()
    const waiting = room.free(stopping.signal)
    stopping.abort()
    await expect(waiting).resolves.toBeUndefined()
  })
})
