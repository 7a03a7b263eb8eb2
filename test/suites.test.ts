import { globSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { LONGEST, SUITES } from './suites.ts'
import { root } from './support/sources.ts'

const filesOf = (patterns: readonly string[]) => globSync([...patterns], { cwd: root })

describe('the suites', () => {
  it('hold every test file of the tree, each in exactly one of them', () => {
    const held = SUITES.flatMap(suite => suite.kind === 'vitest'
      ? filesOf(suite.files).filter(path => !filesOf(suite.without ?? []).includes(path))
      : [])
    expect(held.toSorted()).toEqual(filesOf(['test/**/*.test.ts']).toSorted())
  })

  it('name each file that they leave out as it is', () => {
    const named = SUITES.flatMap(suite => suite.kind === 'vitest' ? suite.without ?? [] : [])
    expect(named.filter(path => !filesOf(['test/**/*.test.ts']).includes(path))).toEqual([])
  })

  it('know by their paths the files that take longest', () => {
    expect(LONGEST.filter(path => !filesOf(['test/**/*.test.ts']).includes(path))).toEqual([])
  })

  it('need a foreign tool only in the last tier', () => {
    const needy = SUITES.filter(({ tools = [] }) => tools.length > 0)
    expect(needy.length).toBeGreaterThan(0)
    expect(needy.filter(({ tier }) => tier !== 'full')).toEqual([])
  })
})
