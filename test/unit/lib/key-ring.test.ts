import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { FatalError } from '../../../services/lib/errors.ts'
import { createKeyRing } from '../../../services/lib/key-ring.ts'
import { SealError } from '../../../services/lib/seal.ts'

const first = Buffer.alloc(32, 1).toString('base64')
const second = Buffer.alloc(32, 2).toString('base64')
const dataKey = randomBytes(32)

describe('a key ring', () => {
  it('unwraps what was wrapped, also after the active key changed', () => {
    const wrapped = createKeyRing({ KEY_RING: { a: first }, KEY_ACTIVE: 'a' }).wrap(dataKey, ['j1'])
    const ring = createKeyRing({ KEY_RING: { a: first, b: second }, KEY_ACTIVE: 'b' })
    expect(ring.unwrap(wrapped, ['j1'])).toEqual(dataKey)
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
  })

  it('refuses a configuration that cannot work', () => {
    const ringOf = (a: string, KEY_ACTIVE: string) => createKeyRing({ KEY_RING: { a }, KEY_ACTIVE })
    expect(() => ringOf(first, 'b')).toThrow('lacks key "b"')
    expect(() => ringOf('AAAA', 'a')).toThrow('not 32 bytes')
  })
})
