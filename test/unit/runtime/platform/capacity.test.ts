import { describe, expect, it } from 'vitest'
import { createCapacity } from '../../../../services/runtime/platform/limits.ts'

describe('a capacity', () => {
  const never = new AbortController().signal

  it('blocks while it is used up', async () => {
    const capacity = createCapacity(2)
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
    const capacity = createCapacity(1)
    capacity.take(1)
    const stopping = new AbortController()
    const waiting = capacity.untilFree(stopping.signal)
    stopping.abort()
    await expect(waiting).resolves.toBeUndefined()
  })

  it('is free for who uses little of it while another uses as much as is left', async () => {
    const capacity = createCapacity(10)
    capacity.take(5)
    const much = capacity.untilFree(never, () => 5)
    await capacity.untilFree(never, () => 4)
    expect(await Promise.race([much, Promise.resolve('waits')])).toBe('waits')
    capacity.release(1)
    await much
  })
})
