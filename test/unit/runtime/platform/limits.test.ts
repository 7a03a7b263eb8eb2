import { describe, expect, it, vi } from 'vitest'
import {
  Capacity, FairSlots, SerialQueues, TokenBuckets, FairPool,
} from '../../../../services/runtime/platform/limits.ts'

describe('a capacity', () => {
  const never = new AbortController().signal

  it('blocks while it is used up', async () => {
    const capacity = new Capacity(2)
    await capacity.untilFree(never)
    capacity.take(3)
    let isFree = false
    const waiting = capacity.untilFree(never).then(() => { isFree = true })
    capacity.release(1)
    await Promise.resolve()
    expect([isFree, capacity.used()]).toEqual([false, 2])
    capacity.release(1)
    await waiting
    expect(isFree).toBe(true)
  })

  it('does not block after an abort', async () => {
    const capacity = new Capacity(1)
    capacity.take(1)
    const stopping = new AbortController()
    const waiting = capacity.untilFree(stopping.signal)
    stopping.abort()
    await expect(waiting).resolves.toBeUndefined()
  })

  it('is free for who uses little of it while another uses as much as is left', async () => {
    const capacity = new Capacity(10)
    capacity.take(5)
    const much = capacity.untilFree(never, () => 5)
    await capacity.untilFree(never, () => 4)
    expect(await Promise.race([much, Promise.resolve('waits')])).toBe('waits')
    capacity.release(1)
    await much
  })
})

it('token buckets ' +
  'forget the least recently used name above their maximum, which refills it', () => {
  const limits = new TokenBuckets(() => 0, 2)
  const isTaken = (name: string) =>
    limits.take(name, [{ capacity: 1, seconds: 60 }]).isTaken
  expect([...'abacab'].map(name => `${name} ${isTaken(name)}`))
    .toEqual(['a true', 'b true', 'a false', 'c true', 'a false', 'b true'])
})

it('serial queues ' +
  'run actions of one name in order, others concurrently, even after a failure', async () => {
  const queues = new SerialQueues()
  const done: string[] = []
  const gate = Promise.withResolvers<void>()
  const first = queues.take('a', async () => {
    await gate.promise
    done.push('a1')
    throw new Error()
  })
  const second = queues.take('a', async () => { done.push('a2') })
  await queues.take('b', async () => { done.push('b1') })
  gate.resolve()
  await expect(first).rejects.toThrow()
  await second
  expect(done).toEqual(['b1', 'a1', 'a2'])
})

it.each<[string, [name: string, cost: number][], ended: 'ends' | 'fails', number[], number[]]>([
  ['up to the capacity', [['a', 6], ['a', 4], ['a', 1]], 'ends', [0, 1], [0, 1, 2]],
  ['to one alone that costs more', [['a', 50], ['a', 1]], 'ends', [0], [0, 1]],
  ['next to the name with the least use', [['a', 10], ['a', 10], ['b', 10]], 'ends', [0], [0, 2]],
  ['again after a failure', [['a', 10], ['b', 10]], 'fails', [0], [0, 1]],
])('fair slots go %s', async (_, actions, ended, before, after) => {
  const slots = new FairSlots({ capacity: 10, maxCredit: 0 })
  const started: number[] = []
  const first = Promise.withResolvers<void>()
  const runs = actions.map(([name, cost], at) => slots.run({ name, cost }, () => {
    started.push(at)
    return at === 0 ? first.promise : new Promise(() => {})
  }))
  await new Promise(setImmediate)
  expect(started).toEqual(before)
  if (ended === 'ends') first.resolve()
  else first.reject(new Error('failed'))
  expect((await Promise.allSettled([runs[0]]))[0]?.status === 'rejected').toBe(ended === 'fails')
  await new Promise(setImmediate)
  expect(started).toEqual(after)
})

it.each(['a', ''])('fair slots are left to others by "%s" at its maximum', async a => {
  const slots = new FairSlots({ capacity: 4, maxCredit: 0, maxPerName: 2 })
  const started: string[] = []
  const first = Promise.withResolvers<void>()
  const runs = [a, a, a, 'b', a, 'b', 'b'].map((name, at) =>
    slots.run({ name, cost: 1 }, () => {
      started.push(`${name}${at}`)
      return at === 0 ? first.promise : new Promise(() => {})
    }))
  await new Promise(setImmediate)
  expect(started).toEqual([`${a}0`, `${a}1`, 'b3', 'b5'])
  first.resolve()
  await runs[0]
  await new Promise(setImmediate)
  expect(started).toEqual([`${a}0`, `${a}1`, 'b3', 'b5', `${a}2`])
})

it('fair slots charge nothing for who leaves before a turn', async () => {
  const slots = new FairSlots({ capacity: 1, maxCredit: 0 })
  const started: string[] = []
  const first = Promise.withResolvers<void>()
  const leaving = new AbortController()
  const run = (name: string, signal?: AbortSignal) =>
    slots.run({ name, cost: 1 }, async () => {
      started.push(name)
      await first.promise
    }, signal)
  const kept = [run('a'), run('b'), run('b')]
  const left = [run('a', leaving.signal), run('a', leaving.signal)]
  kept.push(run('a'))
  leaving.abort(new Error('rebalanced'))
  for (const each of left) await expect(each).rejects.toThrow('rebalanced')
  await expect(run('a', leaving.signal)).rejects.toThrow('rebalanced')
  first.resolve()
  await Promise.all(kept)
  expect(started).toEqual(['a', 'b', 'a', 'b'])
})

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
