import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  accuracyPage, measureAll, readFigures, readPeerFigures, readServerFigures, worseFigures,
} from './accuracy.ts'

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
      suite === 'real domains' || part === 'legitimate hosts' ||
      part === 'names of the US census' || part === 'not about the mailbox')
    expect(never).toHaveLength(9)
    expect(never.flatMap(({ cases }) => cases)).toEqual([])
  })
})
