import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  countBits, emptyBitmap, fullBitmap, has, indexes, set,
} from '../../../../services/runtime/platform/bitmap.ts'

const bitmapOf = (rows: number, numbers: readonly number[]) => {
  const bitmap = emptyBitmap(rows)
  for (const number of numbers) set(bitmap, number)
  return bitmap
}

describe('bitmaps', () => {
  it('hold bit i, least significant first', () => {
    expect(bitmapOf(10, [0, 3, 9])).toEqual(Buffer.of(0b1001, 0b10))
    expect(emptyBitmap(1_000)).toHaveLength(125)
    expect(fullBitmap(10)).toEqual(Buffer.of(0xff, 0b11))
    expect(countBits(fullBitmap(1_000))).toBe(1_000)
  })

  it('reject numbers outside', () => {
    expect(() => set(emptyBitmap(8), 8)).toThrow(RangeError)
    expect(() => set(emptyBitmap(8), -1)).toThrow(RangeError)
    expect(has(emptyBitmap(8), 800)).toBe(false)
  })

  it('are sets of numbers', () => {
    const numbers = fc.uniqueArray(fc.nat(99))
    fc.assert(fc.property(numbers, some => {
      const bitmap = bitmapOf(100, some)
      expect(indexes(bitmap)).toEqual([...some].sort((x, y) => x - y))
      expect(countBits(bitmap)).toBe(some.length)
    }))
  })
})
