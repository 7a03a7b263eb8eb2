import { randomBytes } from 'node:crypto'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import {
  boxPublicKey, detachBuffer, openBox, openSealed, seal, sealBox, SealError, sealPlain, subkey,
  unpack,
} from '../../../../services/runtime/crypto/seal.ts'

const key = Buffer.alloc(32, 7)
const binding = ['rows', 1, Buffer.of(1, 2)] as const

describe('sealed bytes', () => {
  it('decrypt to their content, and are compressed', () => {
    const plain = Buffer.from('+12127365000\n'.repeat(1_000))
    const sealed = seal(key, binding, plain)
    expect(sealed[0]).toBe(1)
    expect(sealed.length).toBeLessThan(200)
    expect(unpack(openSealed(key, binding, sealed))).toEqual(plain)
  })

  it('hold few bytes as they are, in a frame that every decompressor of zstd reads', () => {
    for (const length of [0, 1, 255, 256, 511, 512]) {
      const plain = Buffer.alloc(length, 'ab')
      const content = openSealed(key, binding, seal(key, binding, plain))
      expect(content.includes(plain)).toBe(length < 512)
      expect(zstdDecompressSync(content)).toEqual(plain)
      expect(unpack(content)).toEqual(plain)
    }
    const small = zstdCompressSync(Buffer.from('of an older release'))
    expect(unpack(small).toString()).toBe('of an older release')
  })

  it('are never the same twice', () => {
    const twice = [1, 2].map(() => seal(key, binding, Buffer.from('x')).toString('hex'))
    expect(new Set(twice).size).toBe(2)
  })

  it('do not decrypt with another key or binding', () => {
    const sealed = seal(key, binding, Buffer.from('x'))
    expect(() => openSealed(randomBytes(32), binding, sealed)).toThrow(SealError)
    expect(() => openSealed(key, ['rows', 2, Buffer.of(1, 2)], sealed)).toThrow(SealError)
    expect(() => openSealed(key, ['rows1', '', Buffer.of(1, 2)], sealed)).toThrow(SealError)
    expect(() => openSealed(key, [...binding, ''], sealed)).toThrow(SealError)
  })

  it('do not decrypt after any change of any byte', () => {
    const sealed = seal(key, binding, Buffer.from('x'))
    for (const index of sealed.keys()) {
      const changed = Buffer.from(sealed)
      changed[index] = (changed[index] ?? 0) ^ 1
      expect(() => openSealed(key, binding, changed)).toThrow(SealError)
    }
    expect(() => openSealed(key, binding, Buffer.alloc(0))).toThrow(SealError)
  })

  it('without compressed content do not unpack', () => {
    const sealed = sealPlain(key, binding, Buffer.from('plain'))
    expect(() => unpack(openSealed(key, binding, sealed))).toThrow(SealError)
  })
})

it('subkeys differ by purpose and are deterministic', () => {
  expect(subkey(key, 'rows')).toEqual(subkey(Buffer.alloc(32, 7), 'rows'))
  expect(subkey(key, 'rows')).toBe(subkey(key, 'rows'))
  expect(subkey(key, 'rows')).not.toEqual(subkey(key, 'header'))
  expect(subkey(key, 'rows')).toHaveLength(32)
})

it('a sealed box is opened by the secret key alone, with the same binding', async () => {
  const [secret, plain] = [Buffer.alloc(32, 1), Buffer.alloc(32, 9)]
  const publicKey = await boxPublicKey(secret)
  const sealed = await sealBox(publicKey, ['data-key', 'job_1'], plain)
  expect([publicKey.length, sealed.length]).toEqual([32, 80])
  expect(await openBox(secret, ['data-key', 'job_1'], sealed)).toEqual(plain)
  await expect(openBox(secret, ['data-key', 'job_2'], sealed)).rejects.toThrow(SealError)
  await expect(openBox(publicKey, ['data-key', 'job_1'], sealed)).rejects.toThrow(SealError)
  const changed = Buffer.from(sealed)
  changed[40]! ^= 1
  await expect(openBox(secret, ['data-key', 'job_1'], changed)).rejects.toThrow(SealError)
  await expect(openBox(secret, [], Buffer.alloc(3))).rejects.toThrow(SealError)
})

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
