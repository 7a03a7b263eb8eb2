import { Command } from 'commander'
import { expect, it } from 'vitest'
import { callOf, paintFor, type Call } from '../../../services/ops/screen.ts'
import { tableText } from '../../../services/ops/table.ts'

const painted = (isTTY: boolean, env: Record<string, string>) =>
  paintFor({ isTTY }, env)('red', 'late')

it('paints on terminals alone, and not where NO_COLOR is set', () => {
  expect(painted(true, {})).toBe('\u001b[31mlate\u001b[39m')
  expect(painted(true, { NO_COLOR: '' })).toBe('\u001b[31mlate\u001b[39m')
  expect(painted(true, { NO_COLOR: '1' })).toBe('late')
  expect(painted(false, {})).toBe('late')
})

it('aligns columns by what is seen of them', () => {
  const text = tableText([{ title: 'stage' }, { title: 'lag', right: true }], [
    ['verify', { text: '12', style: 'red' }], ['lookup', '3'],
  ], (style, text) => `<${style}>${text}`)
  expect(text.split('\n')).toEqual([
    '<bold>stage   <bold>lag',
    'verify  <red> 12',
    'lookup    3',
  ])
})

it('reads what all commands share wherever it stands on the line', async () => {
  const calls: Call<object>[] = []
  const program = new Command().option('--json').option('--data <folder>', '', 'none')
  program.command('lag').option('--once')
    .action((_options: object, command: Command) => { calls.push(callOf(command)) })
  await program.parseAsync(['lag', '--once', '--json'], { from: 'user' })
  expect(calls).toMatchObject([{ folder: 'none', json: true, options: { once: true } }])
  expect(calls[0]?.env['PATH']).toBe(process.env['PATH'])
})
