import { describe, expect, it } from 'vitest'
import { figuresOf, rowFiguresOf } from './figures.ts'

const file = (path: string, ...lines: readonly string[]) =>
  ({ path, lines, text: lines.join('\n') })

describe('the figures of the codebase', () => {
  it('count small files that serve one other, and no entries of programs', () => {
    const figures = new Map(figuresOf([
      file('services/lookup/main.ts', "import { a } from './a.ts'", "import './config.ts'"),
      file('services/lookup/config.ts', 'export const c = 1'),
      file('services/lookup/a.ts', 'export const a = 1', 'export const b = 2'),
      file('services/page/b.ts', "import { b } from '../lookup/a.ts'"),
      file('services/page/c.ts', "import './b.ts'"),
      file('test/d.test.ts', "import '../services/page/c.ts'"),
    ]))
    expect(figures.get('source files')).toBe(5)
    expect(figures.get('files under 40 lines with one importer, without main.ts, config.ts'))
      .toBe(1)
    expect(figures.get('exported symbols')).toBe(3)
  })

  it('count a file and a line of the path of a row once', () => {
    const files = (...lines: readonly number[]) =>
      [{ path: 'services/engine/process.ts', functions: [], lines: new Set(lines) }]
    const stages = [
      { stage: 'normalize', files: files(1, 2) }, { stage: 'lookup', files: files(2, 3) },
    ]
    expect(rowFiguresOf(stages).map(([, value]) => value)).toEqual([1, 3])
  })
})
