import { randomBytes } from 'node:crypto'
import { describe, expect, it } from 'vitest'
import { createKeyRing, splitKeyId } from '../../../../services/runtime/crypto/key-ring.ts'
import { SealError } from '../../../../services/runtime/crypto/seal.ts'
import { FatalError } from '../../../../services/runtime/platform/errors.ts'

const bytes = { a: Buffer.alloc(32, 1), b: Buffer.alloc(32, 2) }
const ringOf = (ids: readonly (keyof typeof bytes)[], active: string) =>
  createKeyRing({ name: 'RING', keys: new Map(ids.map(id => [id, bytes[id]])), active })
const dataKey = randomBytes(32)

describe('a key ring', () => {
  it('unwraps keys after the active key has changed, for the same purpose only', () => {
    const wrapped = ringOf(['a'], 'a').wrap(dataKey, ['j1'])
    const ring = ringOf(['a', 'b'], 'b')
    const unwrapped = ring.unwrap(wrapped, ['j1'])
    expect(unwrapped).toEqual(dataKey)
    // A reference to it keeps nothing else in memory.
    expect(unwrapped.buffer.byteLength).toBe(32)
    expect(splitKeyId(ring.wrap(dataKey, ['j1'])).id).toBe('b')
    expect(() => ring.unwrap(wrapped, ['j2'])).toThrow(SealError)
  })

  it('throws a FatalError with the id of a missing key', () => {
    const wrapped = ringOf(['a'], 'a').wrap(dataKey, [])
    const ring = ringOf(['b'], 'b')
    expect(() => ring.unwrap(wrapped, [])).toThrow(FatalError)
    expect(() => ring.unwrap(wrapped, [])).toThrow('RING lacks key "a"')
    expect(() => ring.unwrap(wrapped, ['job-key', 't', 'j1'])).toThrow('in use (job-key t j1)')
  })

  it('rejects an invalid configuration', () => {
    expect(() => ringOf(['a'], 'b')).toThrow('RING has no active key "b"')
    const create = (id: string, key: Buffer) => () =>
      createKeyRing({ name: 'RING', keys: new Map([[id, key]]), active: id })
    expect(create('a', Buffer.alloc(3))).toThrow('has 3 bytes, expected 32')
    expect(create('a b', bytes.a)).toThrow('visible ASCII')
  })
})
