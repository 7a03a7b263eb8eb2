import { describe, expect, it, vi } from 'vitest'
import { FairPool } from '../../../../services/runtime/platform/limits.ts'

describe('a fair pool', () => {
  it('is used by one name as a whole while others leave it', () => {
    const pool = new FairPool({ capacity: 10 })
    const first = pool.open('a')
    expect([first.grow(6), first.grow(3), first.amount]).toEqual([true, true, 6])
    expect([pool.open('a').grow(5), pool.open('a').grow(4), pool.total]).toEqual([false, true, 10])
    first.release()
    first.release()
    expect([first.grow(1), first.amount, pool.total]).toEqual([false, 0, 4])
  })

  it('admits a reservation above the capacity while it is the only one', () => {
    const pool = new FairPool({ capacity: 10 })
    expect(pool.open('a').grow(11)).toBe(true)
    expect(pool.open('b').grow(1)).toBe(false)
  })

  it('takes from the name with most, its newest reservation first', () => {
    const pool = new FairPool({ capacity: 10 })
    const evicted = vi.fn()
    const reserve = (name: string, amount: number) => {
      const reservation = pool.open(name, () => evicted(`${name} ${amount}`))
      return { reservation, isReserved: reservation.grow(amount) }
    }
    const [oldest] = [reserve('a', 4), reserve('a', 3), reserve('b', 3)]
    expect(reserve('c', 3).isReserved).toBe(true)
    expect(evicted.mock.calls).toEqual([['a 3']])
    // Nothing is taken from a name that has less than the other would have.
    expect(reserve('c', 2).isReserved).toBe(false)
    expect(reserve('d', 4).isReserved).toBe(false)
    expect(reserve('d', 3).isReserved).toBe(true)
    expect(evicted.mock.calls).toEqual([['a 3'], ['a 4']])
    expect([oldest?.reservation.grow(1), pool.total]).toEqual([false, 9])
  })

  it('leaves everything as it is when it cannot admit a reservation', () => {
    const pool = new FairPool({ capacity: 10 })
    const evicted = vi.fn()
    expect(pool.open('a', evicted).grow(4)).toBe(true)
    const kept = pool.open('a', evicted)
    expect(kept.grow(6)).toBe(true)
    kept.keep()
    const other = pool.open('b')
    expect([other.canGrow(5), other.grow(5), other.amount]).toEqual([false, false, 0])
    expect(evicted).not.toHaveBeenCalled()
    expect([other.canGrow(4), other.grow(4)]).toEqual([true, true])
    expect([evicted.mock.calls.length, pool.total]).toEqual([1, 10])
  })

  it('guarantees each name a part, up to twice its capacity', () => {
    const pool = new FairPool({ capacity: 10, guaranteed: 4 })
    expect(pool.open('a').grow(10)).toBe(true)
    expect(['b', 'c', 'd'].map(name => pool.open(name).grow(4))).toEqual([true, true, false])
    expect([pool.open('d').grow(2), pool.open('b').grow(1)]).toEqual([true, false])
  })

  it('limits each name', () => {
    const pool = new FairPool({ capacity: 10, maxPerName: 3 })
    expect([pool.open('a').grow(4), pool.open('a').grow(3), pool.open('a').grow(1)])
      .toEqual([false, true, false])
    expect(pool.open('b').grow(3)).toBe(true)
  })

  it('serves a name within an equal share whatever others hold', () => {
    const pool = new FairPool({ capacity: 100 })
    for (let at = 0; at < 200; at++) pool.open('greedy', () => {}).grow(1)
    expect(pool.total).toBe(100)
    const others = Array.from({ length: 9 }, (_, at) => pool.open(`modest ${at}`, () => {}))
    expect(others.map(reservation => reservation.grow(10))).toEqual(Array(9).fill(true))
    expect(pool.total).toBe(100)
  })
})
