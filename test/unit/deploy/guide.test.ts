import { describe, expect, it } from 'vitest'
import { faultOf } from '../../support/guides/exceptions.ts'
import { blocksOf, mentionsOf, missingIn, stepsOf } from '../../support/guides/guide.ts'

const page = [
  '# Page', '## One', '```sh', 'a', '```', 'words', '```sh', 'b', '```', '```text', 'x', 'y', '```',
  '1. Two', '', '   ```sh', '   c', '     d', '   ```', '',
].join('\n')

describe('the blocks of a page', () => {
  it('are found within lists, too, without their indent', () => {
    expect(blocksOf('p', page)).toEqual([
      { page: 'p', line: 3, language: 'sh', content: 'a\n' },
      { page: 'p', line: 7, language: 'sh', content: 'b\n' },
      { page: 'p', line: 10, language: 'text', content: 'x\ny\n' },
      { page: 'p', line: 16, language: 'sh', content: 'c\n  d\n' },
    ])
  })

  it('are commands up to what they show', () => {
    expect(stepsOf(blocksOf('p', page))).toEqual([
      { commands: 'a\nb\n', shown: ['x', 'y'] }, { commands: 'c\n  d\n', shown: [] },
    ])
  })

  it('are refused when no test runs them', () => {
    const block = { page: 'deploy/docs/new.md', line: 3, language: 'sh', content: 'ls\n' }
    expect(faultOf(block)).toMatch(/^deploy\/docs\/new.md:3: the page is not run\./)
    expect(faultOf({ ...block, language: '' })).toMatch(/:3: a block of "" is not run\./)
    expect(faultOf({ ...block, page: 'README.md' })).toBeUndefined()
    expect(faultOf({ ...block, page: 'README.md', content: 'npm run up\n' }))
      .toMatch(/^README.md:3: this starts or ends what is not the test's\./)
    expect(faultOf({ ...block, page: 'README.md', content: 'npm start\n' })).toBeUndefined()
    expect(faultOf({ ...block, language: 'text' })).toBeUndefined()
  })
})

it('what a page shows must all be there, in its order', () => {
  expect(missingIn('1 x 2 y 3', ['x', 'y'])).toBeUndefined()
  expect(missingIn('1 y 2 x 3', ['x', 'y'])).toBe('y')
  expect(missingIn('x', ['x', 'x'])).toBe('x')
})

describe('scripts that a page names', () => {
  it.each([
    ['`npm run up`', { script: 'up', words: [], options: [] }],
    ['npm start -- --once', { script: 'start', words: [], options: ['--once'] }],
    ['npm run dead -- discard verify 0:12 --reason "a --b"  # why',
      { script: 'dead', words: ['discard', 'verify', '0:12'], options: ['--reason'] }],
    ['`npm run workspace -- thaw --org <id>`, or not',
      { script: 'workspace', words: ['thaw'], options: ['--org'] }],
  ])('%s', (text, mention) => {
    expect(mentionsOf('p', text)).toEqual([{ page: 'p', ...mention }])
  })
})
