import { describe, expect, it } from 'vitest'
import { figuresOf } from './figures.ts'

const file = (path: string, ...lines: readonly string[]) =>
  ({ path, lines, text: lines.join('\n') })

describe('the figures of the codebase', () => {
  it('count small files that serve one other, and what the processes of a row import', () => {
    const figures = new Map(figuresOf([
      file('services/lookup/main.ts', "import { a } from './a.ts'"),
      file('services/lookup/a.ts', 'export const a = 1', 'export const b = 2'),
      file('services/page/b.ts', "import { b } from '../lookup/a.ts'"),
      file('services/page/c.ts', "import './b.ts'"),
      file('test/d.test.ts', "import '../services/page/c.ts'"),
    ]))
    expect(figures.get('source files')).toBe(4)
    expect(figures.get('files under 40 lines with one importer')).toBe(1)
    expect(figures.get('exported symbols')).toBe(2)
    expect(figures.get('files that the processes of a row import')).toBe(2)
    expect(figures.get('lines of those')).toBe(3)
  })
})
