import { describe, expect, it } from 'vitest'
import { compareExceptions, readIssues } from './knip.ts'

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

  const nowhere = report(issue('services/a.ts', { exports: [{ name: 'parse' }] }))
  const testsOnly = report(issue('services/b.ts', { exports: [{ name: 'print' }] }))

  it('is an error unless it is an exception', () => {
    expect(compareExceptions(nowhere, testsOnly, [])).toEqual([
      'services/b.ts: print is used by tests only: remove it, or do not export it',
      'services/a.ts: parse is used nowhere: remove it, or do not export it',
    ])
    const exceptions = ['services/a.ts: parse', 'services/b.ts: print']
    expect(compareExceptions(nowhere, testsOnly, exceptions)).toEqual([])
  })

  it('is not what a missing package or file is called', () => {
    const missing = report(issue('services/a.ts', {
      unlisted: [{ name: 'left-pad' }], unresolved: [{ name: './gone.ts' }],
    }))
    expect(compareExceptions(missing, new Map(), [])).toEqual([
      'services/a.ts: left-pad is imported, but package.json does not list it: add it',
      'services/a.ts: ./gone.ts is imported, but does not exist: correct the path',
    ])
  })

  it('may not stay in the list of exceptions once it is used or gone', () => {
    expect(compareExceptions(nowhere, new Map(), ['services/a.ts: parse', 'services/b.ts: print']))
      .toEqual(['test/knip-exceptions.txt: "services/b.ts: print" is no longer needed: ' +
        'remove this line'])
  })
})
