import { describe, expect, it } from 'vitest'
import {
  tokensByVersion, pickRotated, pickTokens, tokenAt,
} from '../../../services/cache/tokens.ts'

const listOf = (...fills: number[]) => Buffer.concat(fills.map(fill => Buffer.alloc(16, fill)))
const others = { versions: ['2', '1'], tokens: listOf(21, 22, 23, 11, 12, 13) }

describe('tokens of other versions', () => {
  it('are all rows of the first version, then of the next', () => {
    expect(tokensByVersion(others)).toEqual([
      { version: '2', tokens: listOf(21, 22, 23) }, { version: '1', tokens: listOf(11, 12, 13) },
    ])
    expect([tokensByVersion(null), tokensByVersion(undefined)]).toEqual([[], []])
  })

  it('are picked for some rows by every version', () => {
    expect(pickRotated(others, [0, 2]))
      .toEqual({ versions: ['2', '1'], tokens: listOf(21, 23, 11, 13) })
    expect(pickRotated(others, [0, 1, 2])).toBe(others)
    expect(pickRotated(undefined, [0])).toBe(null)
  })
})

describe('a list of tokens', () => {
  it('is split by row', () => {
    const tokens = listOf(1, 2, 3)
    expect(tokenAt(tokens, 1)).toEqual(listOf(2))
    expect(pickTokens(tokens, [0, 2])).toEqual(listOf(1, 3))
  })
})
