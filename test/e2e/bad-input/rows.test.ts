import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { ROWS } from './rows.ts'

const root = join(import.meta.dirname, '..', '..', '..')
const sources = readdirSync(import.meta.dirname).filter(name => !name.startsWith('rows'))
  .map(name => readFileSync(join(import.meta.dirname, name), 'utf8'))
const claimed = sources.flatMap(text => [...text.matchAll(/\brow\((\d+)\)/g)])
  .map(([, number]) => Number(number))
const rows = Object.entries(ROWS)

describe('every bad input', () => {
  it('of the 59 is there once', () => {
    expect(rows.map(([number]) => Number(number)))
      .toEqual(Array.from({ length: 59 }, (_, index) => index + 1))
    expect(new Set(rows.map(([, { says }]) => says)).size).toBe(59)
  })

  it('is proven by a test here, or by the one it names', () => {
    const open = rows.filter(([number, { where }]) => {
      if (where === 'here') return !claimed.includes(Number(number))
      const [file = '', title = ''] = where.split(/: (.*)/s)
      return !readFileSync(join(root, file), 'utf8').includes(title)
    })
    expect(open).toEqual([])
    expect(claimed.filter(number => ROWS[number]?.where !== 'here')).toEqual([])
  })
})
