import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { FatalError } from '../../../services/platform/errors.ts'
import { createKeyRing, kidOf } from '../../../services/crypto/key-ring.ts'
import { SealError } from '../../../services/crypto/seal.ts'

const first = Buffer.alloc(32, 1).toString('base64')
const second = Buffer.alloc(32, 2).toString('base64')
const dataKey = randomBytes(32)

describe('a key ring', () => {
  it('unwraps keys after the active key has changed', () => {
    const wrapped = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' }).wrap(dataKey, ['j1'])
    const ring = createKeyRing({ KEY_RING: { a: first, b: second }, KEY_ACTIVE: 'b' })
    const unwrapped = ring.unwrap(wrapped, ['j1'])
    expect(unwrapped).toEqual(dataKey)
    // A reference to it keeps nothing else in memory.
    expect(unwrapped.buffer.byteLength).toBe(32)
    expect(ring.activeKid).toBe('b')
    expect(ring.wrap(dataKey, ['j1']).toString('utf8', 1, 2)).toBe('b')
  })

  it('binds a data key to its purpose', () => {
    const ring = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' })
    expect(() => ring.unwrap(ring.wrap(dataKey, ['j1']), ['j2'])).toThrow(SealError)
  })

  it('throws a FatalError with the id of a missing key', () => {
    const wrapped = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' }).wrap(dataKey, [])
    const ring = createKeyRing({ KEY_RING: { b: second }, KEY_ACTIVE: 'b' })
    expect(() => ring.unwrap(wrapped, [])).toThrow(FatalError)
    expect(() => ring.unwrap(wrapped, [])).toThrow('KEY_RING lacks key "a"')
    expect(() => ring.unwrap(wrapped, ['job-key', 't', 'j1'])).toThrow('in use (job-key t j1)')
  })

  it('rewraps a data key under the active key', () => {
    const KEY_RING = { a: first, b: second }
    const before = createKeyRing({ KEY_RING, KEY_ACTIVE: 'a' })
    const after = createKeyRing({ KEY_RING, KEY_ACTIVE: 'b' })
    const fresh = after.rewrap(before.wrap(dataKey, ['j1']), ['j1']) ?? Buffer.alloc(0)
    expect([kidOf(fresh), before.unwrap(fresh, ['j1'])]).toEqual(['b', dataKey])
    expect(after.rewrap(fresh, ['j1'])).toBeUndefined()
    expect(() => after.rewrap(before.wrap(dataKey, ['j1']), ['j2'])).toThrow(SealError)
    expect(after.kids).toEqual(['a', 'b'])
  })

  it('reports damaged bytes as such, not as a missing key', () => {
    const ring = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' })
    for (const bytes of [Buffer.alloc(0), Buffer.of(0), Buffer.of(1, 7), Buffer.alloc(80, 1)]) {
      expect(() => ring.unwrap(bytes, [])).toThrow(SealError)
    }
  })

  it('rejects an invalid configuration', () => {
    const ringOf = (a: string, KEY_ACTIVE: string) => createKeyRing({ KEY_RING: { a }, KEY_ACTIVE })
    expect(() => ringOf(first, 'b')).toThrow('has no key "b"')
    expect(() => ringOf('AAAA', 'a')).toThrow('must be 32 bytes')
    expect(() => createKeyRing({ KEY_RING: { 'a b': first }, KEY_ACTIVE: 'a b' }))
      .toThrow('visible ASCII')
  })
})
