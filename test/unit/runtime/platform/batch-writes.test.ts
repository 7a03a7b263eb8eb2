import { setImmediate as turn } from 'node:timers/promises'
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
  /** Releases those that are running once there were so many. */
  const letGo = async (count: number) => {
    while (writes.length < count) await turn()
    pending.splice(0).forEach(open => open())
  }
  return { write, writes, letGo }
}

describe('batched writes', () => {
  it('share one per turn of the event loop or running write, which resolves them', async () => {
    const { write, writes, letGo } = store()
    const put = batchWrites(write)
    let isWritten = false
    const first = Promise.all([put(['a']), put(['b', 'c'])]).then(() => { isWritten = true })
    while (writes.length < 1) await turn()
    const second = [put(['d']), put(['e'])]
    await turn()
    expect([writes, isWritten]).toEqual([[['a', 'b', 'c']], false])
    await letGo(1)
    await first
    await letGo(2)
    await Promise.all(second)
    expect(writes).toEqual([['a', 'b', 'c'], ['d', 'e']])
  })

  it('repeat a failed write per caller, and reject only the caller at fault', async () => {
    const { write, writes, letGo } = store(['bad'])
    const put = batchWrites(write)
    const outcomes = Promise.allSettled([put(['a']), put(['bad']), put(['c'])])
    await letGo(1)
    await letGo(4)
    expect((await outcomes).map(({ status }) => status))
      .toEqual(['fulfilled', 'rejected', 'fulfilled'])
    expect(writes).toEqual([['a', 'bad', 'c'], ['a'], ['bad'], ['c']])
  })

  it('have at most maxItems items, unless one caller has more', async () => {
    const { write, writes, letGo } = store()
    const put = batchWrites(write, 2)
    const all = Promise.all([put(['a', 'b', 'c']), put(['d']), put(['e']), put(['f'])])
    for (const count of [1, 2, 3]) await letGo(count)
    await all
    expect(writes).toEqual([['a', 'b', 'c'], ['d', 'e'], ['f']])
  })
})

it('batched reads ' +
  'give each of the concurrent callers the answer to its question, from one read', async () => {
  const reads: (readonly number[])[] = []
  const square = batchReads(async (numbers: readonly number[]) => {
    reads.push(numbers)
    return numbers.map(number => number ** 2)
  })
  expect(await Promise.all([square(2), square(3), square(4)])).toEqual([4, 9, 16])
  expect(reads).toEqual([[2, 3, 4]])
})
