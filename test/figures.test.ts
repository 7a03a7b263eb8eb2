import { describe, expect, it } from 'vitest'
import { figuresOf, rowFiguresOf } from './figures.ts'

const file = (path: string, ...lines: readonly string[]) =>
  ({ path, lines, text: lines.join('\n') })

describe('the figures of the codebase', () => {
  it('count the product and its tests apart, and files with one importer but no entries', () => {
    const figures = new Map(figuresOf([
      file('services/lookup/main.ts', "import { a } from './a.ts'", "import './config.ts'"),
      file('services/lookup/config.ts', 'export const c = 1'),
      file('services/lookup/a.ts', 'export const a = 1', 'export const b = 2'),
      file('services/page/b.ts', "import { b } from '../lookup/c.ts'"),
      file('services/page/c.ts', "import './b.ts'"),
      file('deploy/e.ts', "import '../services/page/b.ts'"),
      file('test/d.test.ts', "import '../services/page/c.ts'"),
    ]))
    expect(figures.get('lines of the product')).toBe(8)
    expect(figures.get('lines of tests')).toBe(1)
    expect(figures.get('source files under services/')).toBe(5)
    expect(figures.get('files with exactly one importer, without main.ts, config.ts')).toBe(2)
    expect(figures.get('exported symbols')).toBe(3)
  })

  it('count private functions, those used once, and of these the small ones', () => {
    const figures = new Map(figuresOf([file('services/lookup/a.ts',
      'export function read () { return [parse(), parse(), large()] }',
      'function parse () { return print() }',
      'function print () { return 1 }',
      'function large () {', '// 2', '// 3', '// 4', '// 5', '// 6', '// 7', '}',
      'function dead () {}')]))
    expect(figures.get('private functions')).toBe(4)
    expect(figures.get('private functions used once')).toBe(2)
    expect(figures.get('private functions used once of at most 7 lines')).toBe(1)
  })

  it('count a file and a line of the path of a row once', () => {
    const files = (...lines: readonly number[]) =>
      [{ path: 'services/runtime/engine/process.ts', functions: [], lines: new Set(lines) }]
    const stages = [
      { stage: 'normalize', files: files(1, 2) }, { stage: 'lookup', files: files(2, 3) },
    ]
    expect(rowFiguresOf(stages).map(([, value]) => value)).toEqual([1, 3])
  })
})
