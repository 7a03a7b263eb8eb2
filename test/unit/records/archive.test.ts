import { randomBytes } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { packManifest, unpackManifest } from '../../../services/records/archive.ts'

describe('a packed manifest', () => {
  it('unpacks to what it was', () => {
    const entry = fc.record({
      chunk: fc.nat(1_000),
      digest: fc.stringMatching(/^[0-9a-f]{64}$/),
      won: fc.uint8Array({ maxLength: 125 }).map(bytes => Buffer.from(bytes)),
      firstRow: fc.nat(100_000),
      inputs: fc.boolean(),
    })
    fc.assert(fc.property(fc.array(entry), manifest => {
      expect(unpackManifest(packManifest(manifest))).toEqual(manifest)
    }))
  })

  it('is small for a job of 100,000 rows in 600 blocks', () => {
    const manifest = Array.from({ length: 600 }, (_, index) => ({
      chunk: Math.floor(index / 6),
      digest: randomBytes(32).toString('hex'),
      won: Buffer.alloc(125, index % 6 === 0 ? 0x11 : 0x22),
      firstRow: Math.floor(index / 6) * 1_000,
      inputs: index % 6 === 0,
    }))
    expect(packManifest(manifest).length).toBeLessThan(40_000)
  })
})
