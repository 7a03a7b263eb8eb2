import { describe, expect, it } from 'vitest'
import { batchReads, batchWrites } from '../../../../services/runtime/platform/batch-writes.ts'

/** A store whose writes end when they are released, and which rejects given items. */
function store (refused: readonly string[] = []) {
  const writes: string[][] = []
  const pending: (() => void)[] = []
  const write = async (items: readonly string[]) => {
    writes.push([...items])
    await new Promise<void>(resolve => { pending.push(resolve) })
    const bad = items.find(item => refused.includes(item))
    if (bad !== undefined) throw new Error(`${bad} is refused`)
  }
  const untilWrites = async (count: number) => {
    while (writes.length < count) await new Promise(resolve => { setImmediate(resolve) })
  }
  return { write, writes, untilWrites, letGo: () => { pending.splice(0).forEach(open => open()) } }
}

describe('batched writes', () => {
  it('share one write per iteration of the event loop, and one per running write', async () => {
    const { write, writes, untilWrites, letGo } = store()
    const put = batchWrites(write)
    const first = [put(['a']), put(['b', 'c'])]
    await untilWrites(1)
    const second = [put(['d']), put(['e'])]
    await new Promise(resolve => { setImmediate(resolve) })
    expect(writes).toEqual([['a', 'b', 'c']])
    letGo()
    await Promise.all(first)
    await untilWrites(2)
    letGo()
    await Promise.all(second)
    expect(writes).toEqual([['a', 'b', 'c'], ['d', 'e']])
  })

  it('resolve a caller only after its items are written', async () => {
    const { write, untilWrites, letGo } = store()
    const put = batchWrites(write)
    let isWritten = false
    const one = put(['a']).then(() => { isWritten = true })
    await untilWrites(1)
    expect(isWritten).toBe(false)
    letGo()
    await one
    expect(isWritten).toBe(true)
  })

  it('repeat a failed write per caller, and reject only the caller at fault',
    async () => {
      const { write, writes, untilWrites, letGo } = store(['bad'])
      const put = batchWrites(write)
      const outcomes = Promise.allSettled([put(['a']), put(['bad']), put(['c'])])
      await untilWrites(1)
      letGo()
      await untilWrites(4)
      letGo()
      expect((await outcomes).map(({ status }) => status))
        .toEqual(['fulfilled', 'rejected', 'fulfilled'])
      expect(writes).toEqual([['a', 'bad', 'c'], ['a'], ['bad'], ['c']])
    })

  it('continue after a failure', async () => {
    const { write, untilWrites, letGo } = store(['bad'])
    const put = batchWrites(write)
    const failed = expect(put(['bad'])).rejects.toThrow('bad is refused')
    await untilWrites(1)
    letGo()
    await failed
    const later = put(['a'])
    await untilWrites(2)
    letGo()
    await later
  })

  it('have at most maxItems items, unless one caller has more', async () => {
    const { write, writes, untilWrites, letGo } = store()
    const put = batchWrites(write, 2)
    const all = Promise.all([put(['a', 'b', 'c']), put(['d']), put(['e']), put(['f'])])
    for (const count of [1, 2, 3]) {
      await untilWrites(count)
      letGo()
    }
    await all
    expect(writes).toEqual([['a', 'b', 'c'], ['d', 'e'], ['f']])
  })
})

describe('batched reads', () => {
  it('give each of the concurrent callers the answer to its question, from one read', async () => {
    const reads: (readonly number[])[] = []
    const square = batchReads(async (numbers: readonly number[]) => {
      reads.push(numbers)
      return numbers.map(number => number ** 2)
    })
    expect(await Promise.all([square(2), square(3), square(4)])).toEqual([4, 9, 16])
    expect(reads).toEqual([[2, 3, 4]])
  })

  it('reject only the callers whose question fails alone as well', async () => {
    const half = batchReads(async (numbers: readonly number[]) => {
      if (numbers.some(number => number % 2 === 1)) throw new Error('it is odd')
      return numbers.map(number => number / 2)
    })
    const halves = await Promise.allSettled([half(2), half(3), half(4)])
    expect(halves.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  })
})
