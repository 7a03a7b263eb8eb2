import { describe, expect, it } from 'vitest'
import { missingIn, sectionOf, stepsOf } from '../../support/guide.ts'

const page = [
  '# Page', '## One', '```sh', 'a', '```', 'words', '```sh', 'b', '```', '```text', 'x', 'y', '```',
  '## Two', '```', 'not run', '```', '```sh', 'c', '```', '',
].join('\n')

describe('the steps of a guide', () => {
  it('are its commands up to what they show', () => {
    expect(stepsOf(page)).toEqual([
      { commands: 'a\nb\n', shown: ['x', 'y'] }, { commands: 'c\n', shown: [] },
    ])
    expect(stepsOf(sectionOf(page, 'Two'))).toEqual([{ commands: 'c\n', shown: [] }])
    expect(() => sectionOf(page, 'Three')).toThrow('no section "Three"')
  })

  it('must show all that the page says, in its order', () => {
    expect(missingIn('1 x 2 y 3', ['x', 'y'])).toBeUndefined()
    expect(missingIn('1 y 2 x 3', ['x', 'y'])).toBe('y')
    expect(missingIn('x', ['x', 'x'])).toBe('x')
  })
})
