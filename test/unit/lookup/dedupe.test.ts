import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Dedupe } from '../../../services/lookup/dedupe.ts'
import { tokenFor } from '../../support/stage-doubles.ts'

function dedupeOf (chunks: readonly (readonly string[])[]) {
  const dedupe = new Dedupe(chunks.flat().length)
  const duplicates = chunks.map((rows) =>
    dedupe.add(Buffer.concat(rows.map(tokenFor)), (row) => rows[row] === ''))
  return { duplicates, originals: [...dedupe.originals], copies: [...dedupe.copies] }
}

describe('duplicates of a job', () => {
  it('refer to the lowest row of their token, across chunks', () => {
    expect(dedupeOf([['a', 'b', 'a'], ['b', 'c', 'a']])).toEqual({
      duplicates: [1, 2],
      originals: [-1, -1, 0, 1, -1, 0],
      copies: [2, 1, 0, 0, 0, 0],
    })
  })

  it('are never invalid rows, whose tokens are all equal', () => {
    expect(dedupeOf([['', 'a', ''], ['', 'a']])).toEqual({
      duplicates: [0, 1], originals: [-1, -1, -1, -1, 1], copies: [0, 1, 0, 0, 0],
    })
  })

  it('leave one original per contact, however the job is split', () => {
    const rows = fc.array(fc.constantFrom('', 'a', 'b', 'c', 'd'), { maxLength: 40 })
    fc.assert(fc.property(rows, fc.integer({ min: 1, max: 9 }), (contacts, chunkRows) => {
      const chunks = Array.from({ length: Math.ceil(contacts.length / chunkRows) },
        (_, chunk) => contacts.slice(chunk * chunkRows, (chunk + 1) * chunkRows))
      const { originals, copies } = dedupeOf(chunks)
      expect(originals).toEqual(contacts.map((contact, row) => {
        const first = contacts.indexOf(contact)
        return contact === '' || first === row ? -1 : first
      }))
      const sum = copies.reduce((total, more) => total + more, 0)
      expect(sum).toBe(originals.filter((original) => original >= 0).length)
    }))
  })

  it('are found by all bytes of a token', () => {
    const token = Buffer.alloc(16, 7)
    const others = Array.from({ length: 16 }, (_, at) => Buffer.from(token).fill(8, at, at + 1))
    const dedupe = new Dedupe(34)
    const all = Buffer.concat([token, ...others])
    expect([dedupe.add(all, () => false), dedupe.add(all, () => false)]).toEqual([0, 17])
    expect([...dedupe.originals.subarray(17)]).toEqual(Array.from({ length: 17 }, (_, row) => row))
  })

  it('throw for more rows than the job has', () => {
    const dedupe = new Dedupe(1)
    dedupe.add(tokenFor('a'), () => false)
    expect(() => dedupe.add(tokenFor('b'), () => false)).toThrow('a job of 1 rows got 2 tokens')
  })
})
