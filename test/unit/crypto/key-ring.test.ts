import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { FatalError } from '../../../services/platform/errors.ts'
import { createKeyRing, kidOf } from '../../../services/crypto/key-ring.ts'
import { SealError } from '../../../services/crypto/seal.ts'

const first = Buffer.alloc(32, 1).toString('base64')
const second = Buffer.alloc(32, 2).toString('base64')
const dataKey = randomBytes(32)

describe('a key ring', () => {
  it('unwraps what was wrapped, also after the active key changed', () => {
    const wrapped = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' }).wrap(dataKey, ['j1'])
    const ring = createKeyRing({ KEY_RING: { a: first, b: second }, KEY_ACTIVE: 'b' })
    const unwrapped = ring.unwrap(wrapped, ['j1'])
    expect(unwrapped).toEqual(dataKey)
    // Whoever remembers it holds nothing more than it.
    expect(unwrapped.buffer.byteLength).toBe(32)
    expect(ring.activeKid).toBe('b')
    expect(ring.wrap(dataKey, ['j1']).toString('utf8', 1, 2)).toBe('b')
  })

  it('binds a data key to what it is for', () => {
    const ring = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' })
    expect(() => ring.unwrap(ring.wrap(dataKey, ['j1']), ['j2'])).toThrow(SealError)
  })

  it('stops the process rather than lose anything, and says which key it lacks', () => {
    const wrapped = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' }).wrap(dataKey, [])
    const ring = createKeyRing({ KEY_RING: { b: second }, KEY_ACTIVE: 'b' })
    expect(() => ring.unwrap(wrapped, [])).toThrow(FatalError)
    expect(() => ring.unwrap(wrapped, [])).toThrow('KEY_RING lacks key "a"')
    expect(() => ring.unwrap(wrapped, ['job-key', 't', 'j1'])).toThrow('in use (job-key t j1)')
  })

  it('wraps anew, by the active key, what another one wraps', () => {
    const KEY_RING = { a: first, b: second }
    const before = createKeyRing({ KEY_RING, KEY_ACTIVE: 'a' })
    const after = createKeyRing({ KEY_RING, KEY_ACTIVE: 'b' })
    const fresh = after.rewrap(before.wrap(dataKey, ['j1']), ['j1']) ?? Buffer.alloc(0)
    expect([kidOf(fresh), before.unwrap(fresh, ['j1'])]).toEqual(['b', dataKey])
    expect(after.rewrap(fresh, ['j1'])).toBeUndefined()
    expect(() => after.rewrap(before.wrap(dataKey, ['j1']), ['j2'])).toThrow(SealError)
    expect(after.kids).toEqual(['a', 'b'])
  })

  it('takes broken bytes for what they are, and not for a key that it lacks', () => {
    const ring = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' })
    for (const bytes of [Buffer.alloc(0), Buffer.of(0), Buffer.of(1, 7), Buffer.alloc(80, 1)]) {
      expect(() => ring.unwrap(bytes, [])).toThrow(SealError)
    }
  })

  it('refuses a configuration that cannot work', () => {
    const ringOf = (a: string, KEY_ACTIVE: string) => createKeyRing({ KEY_RING: { a }, KEY_ACTIVE })
    expect(() => ringOf(first, 'b')).toThrow('lacks key "b"')
    expect(() => ringOf('AAAA', 'a')).toThrow('not 32 bytes')
    expect(() => createKeyRing({ KEY_RING: { 'a b': first }, KEY_ACTIVE: 'a b' }))
      .toThrow('visible ASCII')
  })
})
