import { describe, expect, it } from 'vitest'
import { describeIssues, readIssues } from './knip.ts'

const issue = (file: string, types: object) =>
  ({ file, exports: [], types: [], files: [], ...types })
const report = (...issues: readonly object[]) => readIssues(JSON.stringify({ issues }))

describe('unused code', () => {
  it('is named by path and name, a whole file and duplicates included', () => {
    const issues = report(
      issue('services/a.ts', { exports: [{ name: 'parse' }], types: [{ name: 'Parsed' }] }),
      issue('services/b.ts', { files: [{ name: 'services/b.ts' }] }),
      issue('services/c.ts', { duplicates: [[{ name: 'read' }, { name: 'load' }]] }),
      issue('package.json', { dependencies: [{ name: 'left-pad' }] }))
    expect([...issues.keys()]).toEqual([
      'services/a.ts: parse', 'services/a.ts: Parsed', 'services/b.ts: (file)',
      'services/c.ts: read, load', 'package.json: left-pad',
    ])
  })

  it('is an error, which says whether tests use it', () => {
    const nowhere = report(issue('services/a.ts', { exports: [{ name: 'parse' }] }))
    const testsOnly = report(issue('services/b.ts', { exports: [{ name: 'print' }] }))
    expect(describeIssues(nowhere, testsOnly)).toEqual([
      'services/b.ts: print is used by tests only: remove it, or do not export it',
      'services/a.ts: parse is used nowhere: remove it, or do not export it',
    ])
  })

  it('is not what a missing package or file is called', () => {
    const missing = report(issue('services/a.ts', {
      unlisted: [{ name: 'left-pad' }], unresolved: [{ name: './gone.ts' }],
    }))
    expect(describeIssues(missing, new Map())).toEqual([
      'services/a.ts: left-pad is imported, but package.json does not list it: add it',
      'services/a.ts: ./gone.ts is imported, but does not exist: correct the path',
    ])
  })
})
