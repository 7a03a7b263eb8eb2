import { describe, expect, it } from 'vitest'
import { missedOf, scoreOf, spareTests } from './mutate/findings.ts'
import type { Report, TestResult } from './mutate/report.ts'

const result = (name: string, kills: readonly string[], change: Partial<TestResult> = {}) => ({
  file: 'test/unit/a/a.test.ts',
  name,
  ms: 1,
  reached: kills,
  kills,
  isDisturbed: false,
  isSlow: false,
  ...change,
})
const report = (...tests: readonly TestResult[]): Report => ({
  mutants: ['1', '2', '3', '4'].map(id =>
    ({ id, file: 'services/a/a.ts', line: 1, kind: 'BlockStatement', replacement: '{}' })),
  tests,
})
const property = (...kills: readonly string[]) =>
  result('property', kills, { file: 'test/properties/a.test.ts' })

describe('the findings of a mutation run', () => {
  it('are the share of mutants that a test finds, and the others', () => {
    const some = report(result('test 1', ['1', '2']), property('2', '3'))
    expect(scoreOf(some)).toEqual({ score: 75, mutants: 4 })
    expect(missedOf(some).map(({ id }) => id)).toEqual(['4'])
  })

  it.each<readonly [string, readonly TestResult[], readonly string[]]>([
    ['could all go together, and no properties',
      [result('test 1', ['1']), result('test 2', ['1', '2']), result('test 3', ['3']),
        property('3')],
      ['test 1 (1 mutants)', 'test 3 (1 mutants)']],
    ['find the fewest',
      [result('test 1', ['1', '2']), result('test 2', [], { reached: ['1'] }), property('1', '2')],
      ['test 1 (2 mutants)', 'test 2 (0 mutants)']],
    ['find nothing that only a disturbed test finds as well',
      [result('test 1', ['1']), result('test 2', ['1'], { isDisturbed: true })],
      ['test 2 (1 mutants)']],
    ['ran with all mutants', [result('test 1', [], { reached: ['1'], isSlow: true })], []],
    ['reach one', [result('test 1', [])], []],
  ])('name tests that %s', (_, tests, names) => {
    expect(spareTests(report(...tests), 'test/unit/a'))
      .toEqual(names.map(name => `test/unit/a/a.test.ts › ${name}`))
    expect(spareTests(report(...tests), 'test/unit/b')).toEqual([])
  })
})
