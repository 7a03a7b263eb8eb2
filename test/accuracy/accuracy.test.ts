import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  accuracyPage, measureAll, readFigures, readPeerFigures, readServerFigures, worseFigures,
} from './accuracy.ts'
import { measure } from './row.ts'

const rows = await measureAll()

describe('the accuracy of verdicts', () => {
  it('is not worse than the saved figures', () => {
    expect(worseFigures(readFigures(), rows)).toEqual([])
  })

  it('is published as it is measured', () => {
    const page = readFileSync(new URL('../../deploy/docs/accuracy.md', import.meta.url), 'utf8')
    const saved = { servers: readServerFigures(), peers: readPeerFigures() }
    expect(page).toBe(accuracyPage(rows, saved))
  })

  it('is compared with peers that were asked for the same addresses', () => {
    const addresses = Object.entries(readServerFigures().parts).map(([key, { total }]) =>
      [key.slice(key.indexOf(': ') + 2), total])
    const products = Object.values(readPeerFigures())
    expect(products).toHaveLength(2)
    for (const product of products) {
      expect(Object.entries(product).map(([part, { total }]) => [part, total])).toEqual(addresses)
    }
  })

  it('corrects no real domain, and takes no other host or reply for a bad one', () => {
    const never = rows.filter(({ suite, part }) =>
      suite === 'real domains' || part === 'legitimate hosts' || part === 'names of the US census' ||
      part === 'not about the mailbox')
    expect(never).toHaveLength(8)
    expect(never.flatMap(({ cases }) => cases)).toEqual([])
  })
})

describe('a comparison of figures', () => {
  const row = measure({ suite: 's', part: 'p' }, ['a', 'b', 'c'], text =>
    text === 'a' ? { is: 'right' } : { is: text === 'b' ? 'wrong' : 'missed', case: text })

  it('accepts equal and better figures', () => {
    expect(worseFigures({ 's: p': { total: 3, right: 1, wrong: 1 } }, [row])).toEqual([])
    expect(worseFigures({ 's: p': { total: 3, right: 0, wrong: 2 } }, [row])).toEqual([])
  })

  it('names what became worse, is new, or is not measured any more', () => {
    expect(worseFigures({ 's: p': { total: 3, right: 2, wrong: 0 } }, [row])).toEqual([
      's: p became worse: 1 of 3 right, 1 wrong; it was 2 of 3 right, 0 wrong. For example: b; c',
    ])
    expect(worseFigures({}, [row])).toEqual(['s: p is new. Save its figures.'])
    expect(worseFigures({ 's: q': { total: 1, right: 1, wrong: 0 } }, []))
      .toEqual(['s: q is not measured any more. Measure it, or save without it.'])
  })
})
