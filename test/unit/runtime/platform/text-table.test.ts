import { expect, it } from 'vitest'
import {
  paintFor, recordsText, tableText,
} from '../../../../services/runtime/platform/text-table.ts'

const painted = (isTTY: boolean, env: Record<string, string>) =>
  paintFor({ isTTY }, env)('red', 'late')

it('text is colored on terminals only, unless NO_COLOR is set', () => {
  expect(painted(true, {})).toBe('\u001b[31mlate\u001b[39m')
  expect(painted(true, { NO_COLOR: '' })).toBe('\u001b[31mlate\u001b[39m')
  expect(painted(true, { NO_COLOR: '1' })).toBe('late')
  expect(painted(false, {})).toBe('late')
})

it('table columns are aligned regardless of colors', () => {
  const text = tableText([{ title: 'stage' }, { title: 'lag', right: true }], [
    ['verify', { text: '12', style: 'red' }], ['lookup', '3'],
  ], (style, text) => `<${style}>${text}`)
  expect(text.split('\n')).toEqual([
    '<bold>stage   <bold>lag',
    'verify  <red> 12',
    'lookup    3',
  ])
})

it('records are a table without the columns that are empty in all of them', () => {
  expect(recordsText([
    { id: 'a', ids: ['1', '2'], wraps: 10, isFree: false, wrapped: { jobs: 2, hooks: 0 } },
    { id: 'bcd', ids: [], wraps: 3, isFree: true, to: '' },
  ])).toBe([
    'id   ids  wraps  isFree  wrapped',
    'a    1,2     10  no      jobs=2 hooks=0',
    'bcd  -        3  yes     -',
  ].join('\n'))
})
