import { expect, it } from 'vitest'
import { AdminCommand } from '../../../services/admin/admin-command.ts'
import {
  readCall, parseInteger, parsePositive, parseStage, round, type CommandCall,
} from '../../../services/admin/command-line.ts'
import { STAGES } from '../../../services/topology.ts'

it('global options are read at any position of the command line', async () => {
  const calls: CommandCall<object>[] = []
  const program = new AdminCommand().option('--json').option('--data <folder>', '', 'none')
  program.command('lag').option('--once')
    .action((_options: object, command: AdminCommand) => { calls.push(readCall(command)) })
  await program.parseAsync(['lag', '--once', '--json'], { from: 'user' })
  expect(calls).toMatchObject([{ folder: 'none', json: true, options: { once: true } }])
  expect(calls[0]?.env['PATH']).toBe(process.env['PATH'])
})

it('numbers are parsed or rejected with their option', () => {
  expect(parsePositive('--timeout', '0.5')).toBe(0.5)
  for (const text of ['', '0', '-1', 'x', 'Infinity']) {
    expect(() => parsePositive('--timeout', text))
      .toThrow(`--timeout ${text} is not a number above 0`)
  }
  expect(parseInteger('--limit', '0')).toBe(0)
  for (const text of ['', '1.5', '-1', '1e3']) {
    expect(() => parseInteger('--limit', text)).toThrow(`--limit ${text} is not an integer from 0`)
  }
  expect([round(1.26), round(1.23456, 3)]).toEqual([1.3, 1.235])
})

it('stages are parsed or rejected with all names', () => {
  expect(parseStage('verify')).toBe('verify')
  expect(() => parseStage('verfy'))
    .toThrow(`Stage verfy does not exist. The stages are: ${STAGES.join(', ')}.`)
})
