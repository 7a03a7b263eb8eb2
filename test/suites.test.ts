import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
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

  it('that are programs refuse --only, beside suites of test files too', () => {
    const { status, stderr } = spawnSync(process.execPath,
      [join(root, 'test/run.ts'), 'unit', 'lint', '--only', 'suites'], { encoding: 'utf8' })
    expect(stderr).toContain('programs without test files: lint; run them without --only')
    expect(status).toBe(2)
  })

  it('run the files of every --only, and fail for one that has none', async () => {
    const run = async (...filters: readonly string[]) => {
      const child = spawn(process.execPath, [
        join(root, 'test/run.ts'), 'unit', ...filters.flatMap(filter => ['--only', filter]),
      ], { env: { ...process.env, NO_COLOR: '1', FORCE_COLOR: '0' }, stdio: 'pipe' })
      const [output, errors, [status]] = await Promise.all([
        text(child.stdout), text(child.stderr), once(child, 'close') as Promise<[number]>,
      ])
      return { output, errors, status }
    }
    const both = await run('unit/money/journal', 'unit/money/prices')
    expect(both.output).toMatch(/Test Files .* 2 passed/)
    expect(both.status).toBe(0)
    const half = await run('unit/money/journal', 'unit/money/none')
    expect(half.errors).toContain('--only unit/money/none selects no test file of unit')
    expect(half.status).toBe(1)
  })
})
