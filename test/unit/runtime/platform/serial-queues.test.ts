import { describe, expect, it } from 'vitest'
import { createSerialQueues } from '../../../../services/runtime/platform/limits.ts'

describe('serial queues', () => {
  it('run actions of one name in order, others concurrently, even after a failure', async () => {
    const { take } = createSerialQueues()
    const done: string[] = []
    const gate = Promise.withResolvers<void>()
    const first = take('a', async () => { await gate.promise; done.push('a1'); throw new Error() })
    const second = take('a', async () => { done.push('a2') })
    await take('b', async () => { done.push('b1') })
    gate.resolve()
    await expect(first).rejects.toThrow()
    await second
    expect(done).toEqual(['b1', 'a1', 'a2'])
  })
})
