import { Command } from 'commander'
import { describe, expect, it } from 'vitest'
import { UsageError } from '../../../services/client/terminal.ts'
import { addSelectionOptions, toSelection } from '../../../services/client/job-commands.ts'

const parse = (...words: readonly string[]) =>
  toSelection(addSelectionOptions(new Command()).parse(words, { from: 'user' }).opts())

describe('the options that select rows', () => {
  it('are the parameters of the request', () => {
    expect(parse()).toEqual({})
    expect(parse(
      '--status', 'valid, risky', '--reason', 'deliverable', '--source', 'live', '--line-type',
      'mobile,voip', '--country', 'us,DE', '--columns', 'e164,row', '--drop-duplicates'
    )).toEqual({
      status: ['valid', 'risky'],
      reason: ['deliverable'],
      source: ['live'],
      line_type: ['mobile', 'voip'],
      country: ['US', 'DE'],
      columns: ['e164', 'row'],
      duplicates: 'drop',
    })
  })

  it.each([
    ['--status', 'valid,vaild', '--status: there is no "vaild". The values are: valid, invalid,'],
    ['--country', 'UK', '--country: there is no "UK". The values are: '],
    ['--columns', '', '--columns: there is no "". The values are: row, '],
  ])('%s %s is refused', (option, value, message) => {
    expect(() => parse(option, value)).toThrow(UsageError)
    expect(() => parse(option, value)).toThrow(message)
  })
})
