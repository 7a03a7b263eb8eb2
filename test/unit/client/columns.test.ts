import { describe, expect, it } from 'vitest'
import { uniqueNames } from '../../../schemas/files/csv-format.ts'
import { columnsToAppend, indexOfName, parseOnly } from '../../../services/client/plan.ts'
import { UsageError } from '../../../services/client/terminal.ts'

describe('a column', () => {
  const header = ['id', 'Phone', 'phone', 'Tel']

  it.each<[string, number]>([['Phone', 1], ['phone', 2], [' TEL ', 3], ['#1', 0]])(
    'named %j is found', (named, index) => {
      expect(indexOfName(header, named)).toBe(index)
    })

  it.each<[string, string, string]>([
    ['PHONE,phone,Tel,tel', 'TEL',
      "2 columns have the name TEL. Select one by its position: --id-column '#3' or '#4'."],
    ['id,,Tel', 'mail', 'The file has no column mail. The columns are: id, #2, Tel.'],
    ['id,Tel', '#3', 'The file has no column #3.'],
  ])('of %s named %s is rejected', (names, named, why) => {
    const find = () => indexOfName(names.split(','), named, '--id-column')
    expect(find).toThrow(why)
    expect(find).toThrow(UsageError)
  })
})

describe('the result columns of a joined file', () => {
  it('default to all that the file lacks, and can be selected', () => {
    expect(columnsToAppend(['row', 'input', 'status', 'role'], undefined))
      .toEqual(['status', 'role'])
    expect(columnsToAppend(['row', 'input', 'status'], ['status'])).toEqual(['status'])
    expect(parseOnly(undefined, [])).toBeUndefined()
    expect(parseOnly('role, status,role', ['role'])).toEqual(['role', 'status'])
    for (const list of ['input', 'status,x', ' , ']) {
      expect(() => parseOnly(list, ['role'])).toThrow(/^--only: .* phone, e164, .*, role\.$/)
    }
  })

  it('get a prefix when the file already has the name', () => {
    expect(uniqueNames(['status', 'reason', 'e164'], ['STATUS ', 'e164', 'verified_e164']))
      .toEqual(['verified_status', 'reason', 'verified_verified_e164'])
  })
})
