import { describe, expect, it } from 'vitest'
import { detachBuffer } from '../../../services/platform/detach-buffer.ts'

describe('bytes that are discarded', () => {
  it('are gone at once', () => {
    const bytes = Buffer.alloc(100_000, 1)
    detachBuffer(bytes)
    expect(bytes).toHaveLength(0)
    expect(() => detachBuffer(bytes)).not.toThrow()
  })

  it('take no others along that share their memory', () => {
    const [small, other] = [Buffer.from('small'), Buffer.from('other')]
    expect(small.buffer).toBe(other.buffer)
    detachBuffer(small)
    expect([String(small), String(other)]).toEqual(['small', 'other'])
  })

  it('are left where they do not begin where their memory does', () => {
    const whole = Buffer.alloc(100_000, 1)
    detachBuffer(whole.subarray(1))
    expect(whole).toHaveLength(100_000)
  })
})
