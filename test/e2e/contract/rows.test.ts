import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { REQUIREMENTS } from './requirements.ts'
import { ROWS } from './rows.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const lists = ['rows.ts', 'requirements.ts']
const sources = readdirSync(import.meta.dirname).filter(name => !lists.includes(name))
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

describe('every requirement of the interface text', () => {
  const requirements = Object.values(REQUIREMENTS).flat()

  it('names the points that prove it', () => {
    const open = requirements.filter(([, ...points]) =>
      points.length === 0 || points.some(point => !Object.hasOwn(ROWS, point)))
    expect(open).toEqual([])
  })

  it('is written once', () => {
    const sentences = requirements.map(([sentence]) => sentence)
    expect(sentences.filter((sentence, index) => sentences.indexOf(sentence) !== index)).toEqual([])
    expect(sentences.length).toBeGreaterThan(100)
  })
})
