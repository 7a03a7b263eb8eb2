import { describe, expect, it } from 'vitest'
import { detachBuffer } from '../../../../services/runtime/platform/detach-buffer.ts'

describe('a detached buffer', () => {
  it('is empty at once', () => {
    const bytes = Buffer.alloc(100_000, 1)
    detachBuffer(bytes)
    expect(bytes).toHaveLength(0)
    expect(() => detachBuffer(bytes)).not.toThrow()
  })

  it('does not free pooled memory', () => {
    const [small, other] = [Buffer.from('small'), Buffer.from('other')]
    expect(small.buffer).toBe(other.buffer)
    detachBuffer(small)
    expect([String(small), String(other)]).toEqual(['small', 'other'])
  })

  it('keeps its memory if it is a view with an offset', () => {
    const whole = Buffer.alloc(100_000, 1)
    detachBuffer(whole.subarray(1))
    expect(whole).toHaveLength(100_000)
  })
})
