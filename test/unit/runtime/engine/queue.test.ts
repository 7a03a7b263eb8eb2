import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { RawMessage } from '../../../../services/runtime/kafka/bus.ts'
import {
  createTenantShares, Offsets, TenantQueue,
} from '../../../../services/runtime/engine/queue.ts'
import { rawMessage } from './engine-bench.ts'

const of = (tenant: string, offset: number, rows = 10): RawMessage => ({
  ...rawMessage(offset), timestampMs: 1_000 + offset, headers: { tenant, chunkRows: `${rows}` },
})
const offsets = (messages: readonly RawMessage[]) => messages.map(({ offset }) => Number(offset))

function setUp () {
  const ahead = { bytes: 0, maxBytes: 100 }
  const shares = createTenantShares(ahead, tenant => tenant === 'heavy' ? 2 : 1)
  return { ahead, shares, queue: new TenantQueue(shares, true) }
}

/** Spends the credit of tenants, who are then limited to what they may have in flight. */
function spendCredit (queue: TenantQueue, ...tenants: readonly string[]): void {
  for (const tenant of tenants) {
    queue.add([of(tenant, 0, tenant === 'heavy' ? 120_000 : 60_000)])
    queue.release(queue.take(1))
  }
}

describe('the messages of a partition', () => {
  it.each([
    ['are scheduled by rows, so that large messages have no advantage',
      [of('a', 0, 100), of('a', 1, 100), ...[2, 3, 4, 5].map(at => of('b', at, 50))],
      6, [0, 2, 3, 1, 4, 5]],
    ['are taken up to the rows of two full chunks, so that other tenants wait little',
      [0, 1, 2, 3].map(at => of('a', at, 1_900)), 8, [0, 1, 2]],
  ])('%s', (_, messages, count, expected) => {
    const { queue } = setUp()
    queue.add(messages)
    expect(offsets(queue.take(count))).toEqual(expected)
  })

  it('of a tenant that was idle go first, for up to 25,000 rows', () => {
    const { queue } = setUp()
    const takeAll = () => Array.from({ length: 40 }, () => {
      const taken = queue.take(1)
      queue.release(taken)
      return offsets(taken)
    }).flat()
    queue.add(Array.from({ length: 20 }, (_, at) => of('a', at, 2_000)))
    takeAll()
    queue.add(Array.from({ length: 20 }, (_, at) => of('a', at, 2_000)))
    queue.add(Array.from({ length: 20 }, (_, at) => of('b', 100 + at, 2_000)))
    const taken = takeAll().map(offset => offset >= 100 ? 'b' : 'a').join('')
    expect(taken.indexOf('a')).toBe(14)
    expect(taken.slice(14, 24)).toBe('ababababab')
  })

  it('that are forged share one tenant and cost one row', () => {
    const { queue } = setUp()
    queue.add([{ ...of('a', 0, 9_999), forged: true }, of('a', 1), of('a', 2)])
    queue.take(2)
    queue.add([{ ...of('b', 3, 9_999), forged: true }])
    expect(offsets(queue.take(2))).toEqual([3, 2])
  })

  it('wait while other tenants are active and their tenant has 4,000 rows per weight in flight',
    async () => {
      const { queue, shares } = setUp()
      spendCredit(queue, 'a', 'heavy')
      const other = new TenantQueue(shares, true)
      other.add([of('b', 0), of('b', 1)])
      queue.add([0, 1, 2].map(at => of('a', at, 2_000)))
      queue.add([3, 4, 5].map(at => of('heavy', at, 4_000)))
      const inFlight = Array.from({ length: 6 }, () => queue.take(1)).flat()
      expect(offsets(inFlight).toSorted()).toEqual([0, 1, 3, 4])
      expect([queue.take(3), queue.isEmpty()]).toEqual([[], false])
      const woken = Promise.all([queue.released(), other.released()])
      queue.release(inFlight.filter(({ headers }) => headers.tenant === 'a'))
      await woken
      expect(offsets(queue.take(3))).toEqual([2])
    })

  it('do not wait once the messages of the other tenants are gone', () => {
    const { queue, shares } = setUp()
    spendCredit(queue, 'a')
    const other = new TenantQueue(shares, true)
    other.add([of('b', 0)])
    queue.add([0, 1, 2].map(at => of('a', at, 4_000)))
    expect([queue.take(1), queue.take(1)].map(offsets)).toEqual([[0], []])
    other.clear()
    expect([queue.take(1), queue.take(1)].map(offsets)).toEqual([[1], [2]])
  })

  it('have an oldest time and a size', () => {
    const { queue, ahead } = setUp()
    queue.add([of('a', 0), of('b', 1), of('a', 2)])
    const all = ahead.bytes
    expect(all).toBeGreaterThan(0)
    queue.take(1)
    expect([queue.oldestDueAtMs(), queue.lowestOffset(9n), queue.lowestOffset(0n)])
      .toEqual([1_001, 1n, 0n])
    expect(ahead.bytes).toBe(all / 3 * 2)
    queue.clear()
    expect([queue.oldestDueAtMs(), queue.isEmpty(), ahead.bytes]).toEqual([undefined, true, 0])
  })

  it('in flight exceed the limit by at most one message, and never stop all tenants', () => {
    const steps = fc.array(fc.record({
      tenant: fc.constantFrom('a', 'b', 'c'),
      rows: fc.integer({ min: 1, max: 2_000 }),
      isEnd: fc.boolean(),
    }), { maxLength: 100 })
    fc.assert(fc.property(steps, all => {
      const { queue, shares } = setUp()
      spendCredit(queue, 'a', 'b', 'c')
      const waiting = new TenantQueue(shares, true)
      waiting.add(['a', 'b', 'c'].map((tenant, at) => of(tenant, at)))
      const running: RawMessage[] = []
      const rowsOf = (tenant: string) => running
        .filter(({ headers }) => headers.tenant === tenant)
        .reduce((sum, { headers }) => sum + Number(headers.chunkRows), 0)
      for (const [at, { tenant, rows, isEnd }] of all.entries()) {
        if (isEnd) queue.release(running.splice(0, 1))
        queue.add([of(tenant, at, rows)])
        running.push(...queue.take(1))
        if (queue.isEmpty()) continue
        expect(running.length).toBeGreaterThan(0)
        expect(Math.max(...['a', 'b', 'c'].map(rowsOf))).toBeLessThan(4_000 + 2_000)
      }
    }))
  })
})

describe('offsets', () => {
  it('commit up to the lowest pending message, in any order of completion', () => {
    const stream = fc.nat(20).chain(size => fc.shuffledSubarray([...Array(size).keys()]))
    fc.assert(fc.property(fc.nat(20), stream, (more, finished) => {
      const size = Math.max(0, ...finished.map(offset => offset + 1)) + more
      const messages = Array.from({ length: size }, (_, offset) => rawMessage(offset))
      const offsets = new Offsets()
      offsets.add(messages)
      for (const offset of finished) offsets.complete(BigInt(offset))
      const held = messages.findIndex((_, offset) => !finished.includes(offset))
      const expected = BigInt(held === -1 ? size : held)
      expect(offsets.committable()).toBe(expected === 0n ? undefined : expected)
      expect(offsets.countPending()).toBe(size - finished.length)
    }))
  })

  it('stop below a redelivered message', () => {
    const offsets = new Offsets()
    offsets.add([rawMessage(5), rawMessage(6), rawMessage(7)])
    offsets.complete(5n)
    offsets.complete(7n)
    offsets.rewind(6n)
    expect(offsets.committable()).toBe(6n)
    offsets.add([rawMessage(6)])
    offsets.complete(6n)
    expect(offsets.committable()).toBe(7n)
  })

  it('have nothing to commit before the first message', () => {
    expect(new Offsets().committable()).toBeUndefined()
  })
})
