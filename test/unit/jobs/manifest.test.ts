import { describe, expect, it } from 'vitest'
import { unfinishedRowsOf, unpackEntry } from '../../../services/jobs/manifest.ts'

describe('the manifest', () => {
  it('is unpacked as the script packs it', () => {
    const packed = Buffer.from([0, 0, 0, 2, 0, 0, 7, 208, 1, 0b101, 0x80])
    expect(unpackEntry('ab', packed)).toEqual({
      chunk: 2, digest: 'ab', won: Buffer.from([0b101, 0x80]), firstRow: 2_000, inputs: true,
    })
    expect(() => unpackEntry('ab', packed.subarray(0, 8)))
      .toThrow('has 8 bytes, expected at least 9')
  })

  it('leaves open what no block has won, across chunks that end within a byte', () => {
    const entry = (firstRow: number, ...won: number[]) =>
      ({ chunk: 0, digest: '', inputs: false, firstRow, won: Buffer.from(won) })
    expect(unfinishedRowsOf(11, [])).toEqual(Buffer.from([0xff, 0b111]))
    expect(unfinishedRowsOf(11, [entry(0, 0b10), entry(3, 0b10000001), entry(10, 1)]))
      .toEqual(Buffer.from([0b11110101, 0b011]))
  })
})
