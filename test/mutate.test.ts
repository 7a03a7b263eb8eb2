import { describe, expect, it } from 'vitest'
import { scoreOf, spareTests } from './mutate/findings.ts'
import { sampleRanges } from './mutate/sample.ts'
import type { Mutant, Report } from './mutate/stryker.ts'

const mutant = (status: string, ...killedBy: readonly string[]): Mutant =>
  ({ status, mutatorName: 'Block', location: { start: { line: 1 } }, killedBy })
const report = (...mutants: readonly Mutant[]): Report => ({
  files: { 'services/a/a.ts': { mutants } },
  testFiles: {
    'test/unit/a/a.test.ts': { tests: ['1', '2', '3'].map(id => ({ id, name: `test ${id}` })) },
    'test/properties/a.test.ts': { tests: [{ id: 'p', name: 'property' }] },
  },
})

describe('the findings of a mutation run', () => {
  it('are the share of mutants that a test finds, without those that cannot run', () => {
    expect(scoreOf(report(mutant('Killed', '1'), mutant('Timeout'), mutant('Survived'),
      mutant('NoCoverage'), mutant('CompileError'), mutant('Ignored'))))
      .toEqual({ score: 50, mutants: 4 })
  })

  it('name tests that could all go together, and never properties', () => {
    const twice = mutant('Killed', '1', '2')
    expect(spareTests(report(twice, mutant('Killed', '3', 'p')), 'test/unit/a')).toEqual([
      'test/unit/a/a.test.ts › test 1 (1 mutants)', 'test/unit/a/a.test.ts › test 3 (1 mutants)',
    ])
    expect(spareTests(report(twice, mutant('Killed', '1')), 'test/unit/a')).toEqual([
      'test/unit/a/a.test.ts › test 2 (1 mutants)', 'test/unit/a/a.test.ts › test 3 (0 mutants)',
    ])
    expect(spareTests(report(twice), 'test/unit/b')).toEqual([])
  })
})

describe('the sample of functions', () => {
  const functions = Array.from({ length: 20 }, (_, index) =>
    `function f${index} () {\n  return ${index}\n}`)
  const sources = (text: string) => [{ path: 'services/a/a.ts', text }]

  it('is about as large as asked, and has whole functions and methods', () => {
    const ranges = sampleRanges(sources(functions.join('\n')), 10)
    expect(ranges).toHaveLength(4)
    for (const range of ranges) {
      const [, first = 0, last = 0] = /:(\d+)-(\d+)$/.exec(range) ?? []
      expect([Number(last) - Number(first), Number(first) % 3]).toEqual([2, 1])
    }
    expect(sampleRanges(sources('import a from "a"\ntype A = 1\nclass B {\n  #a = 1\n  b () {}\n}'),
      100)).toEqual(['services/a/a.ts:4-4', 'services/a/a.ts:5-5'])
  })

  it('is the same wherever the functions stand', () => {
    const linesOf = (text: string) => sampleRanges(sources(text), 10)
      .map(range => text.split('\n')[Number(/:(\d+)/.exec(range)?.[1]) - 1]).toSorted()
    expect(linesOf(functions.toReversed().join('\n\n'))).toEqual(linesOf(functions.join('\n')))
  })
})
