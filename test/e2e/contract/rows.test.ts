import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROWS } from './rows.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const sources = readdirSync(import.meta.dirname).filter(name => name !== 'rows.ts')
  .map(name => readFileSync(join(import.meta.dirname, name), 'utf8'))
const claimed = sources.flatMap(text => [...text.matchAll(/proves\(([^)]*)\)/g)])
  .flatMap(([, points = '']) => [...points.matchAll(/'([^']+)'/g)].map(([, point]) => point))
const rows = Object.entries(ROWS)

describe('every point of the interface', () => {
  it('is proven by a test here, or by the one it names', () => {
    const open = rows.filter(([point, where]) => {
      if (where === 'here') return !claimed.includes(point)
      const [file = '', title = ''] = where.split(/: (.*)/s)
      return !readFileSync(join(root, file), 'utf8').includes(title)
    })
    expect(open).toEqual([])
  })

  it('is written once, and no test proves another', () => {
    const here = rows.filter(([, where]) => where === 'here').map(([point]) => point)
    expect(claimed.filter(point => point === undefined || !here.includes(point as never)))
      .toEqual([])
    expect(here.length).toBeGreaterThan(70)
  })
})
