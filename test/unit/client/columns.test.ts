import { describe, expect, it } from 'vitest'
import { uniqueNames } from '../../../schemas/files/csv-format.ts'
import {
  columnsToAppend, COMMON_RESULT_COLUMNS, contactColumn, type ContactKind, contactKinds,
  looksLike, parseOnly,
} from '../../../services/client/columns.ts'
import { UsageError } from '../../../services/client/terminal.ts'
import { COMMON_COLUMNS, STANDARD_COLUMNS } from '../../../schemas/api/columns.ts'

const table = (header: string, ...rows: readonly string[]) =>
  ({ header: header.split(','), rows: rows.map(row => row.split(',')) })

describe('the column of the contacts', () => {
  const people = table('id,Phone,phone,Tel', '1,2,3,4')

  it.each<[string, number]>([['Phone', 1], ['phone', 2], [' TEL ', 3], ['#1', 0]])(
    'named %j is found', (named, index) => {
      expect(contactColumn(people, { kind: 'phone', named })).toMatchObject({
        index, guessed: false,
      })
    })

  it.each<[string, string]>([
    ['PHONE', "2 columns have the name PHONE. Select one by its position: --column '#2' or '#3'."],
    ['mail', 'The file has no column mail. The columns are: id, Phone, phone, Tel.'],
    ['#5', 'The file has no column #5.'],
  ])('named %j is rejected', (named, why) => {
    const find = () => contactColumn(people, { kind: 'phone', named })
    expect(find).toThrow(why)
    expect(find).toThrow(UsageError)
  })

  it.each<[ContactKind, string, readonly string[], string]>([
    ['phone', 'id,who,born,reach', ['1,a,1990-01-02,+1 212 736 5000', '2,b,2.3.1991,'], 'reach'],
    ['phone', 'order,mobile', ['1234567,+12127365000', '1234568,+12127365001'], 'mobile'],
    ['phone', 'a,number', ['x,unknown', 'y,none'], 'number'],
    ['email', 'phone,mail,x', ['+12127365000,a@b.org,1'], 'mail'],
    ['email', 'a,b', ['a@b.org,1', 'typing error,2', 'c@d.org,3'], 'a'],
    ['phone', 'Telefon', [], 'Telefon'],
    ['phone', 'whatever', ['x'], 'whatever'],
  ])('of %ss in %s is guessed', (...[kind, header, rows, name]) => {
    expect(contactColumn(table(header, ...rows), { kind })).toMatchObject({ name, guessed: true })
  })

  it.each<[ContactKind, string, readonly string[], string]>([
    ['phone', 'a,b', ['+12127365000,+12127365001'], 'Name it with --column'],
    ['phone', 'phone,mobile', ['+12127365000,+12127365001'], 'The columns are: phone, mobile.'],
    ['email', 'a,b', ['x,y'], 'Name it with --column'],
    ['phone', '+12127365000', ['+12127365001'], 'The first line of the file must contain column'],
  ])('of %ss in %s is ambiguous', (...[kind, header, rows, why]) => {
    expect(() => contactColumn(table(header, ...rows), { kind })).toThrow(why)
  })

  it.each<[string, string | undefined, readonly string[], readonly ContactKind[]]>([
    ['a,b', undefined, ['x,+12127365000', 'y,'], ['phone']],
    ['a,b', undefined, ['a@b.org,+12127365000'], ['phone', 'email']],
    ['a,b', 'B', ['a@b.org,+12127365000'], ['phone']],
    ['contact', 'contact', ['a@b.org'], ['email']],
    ['Handynummer', 'handynummer', ['?'], ['phone']],
    ['contact', 'contact', ['?'], ['phone', 'email']],
    ['a', undefined, ['?'], []],
  ])('of %s, named %s, has the right kinds', (...[header, named, rows, kinds]) => {
    expect(contactKinds(table(header, ...rows), named)).toEqual(kinds)
  })

  it('contains cells that look like contacts', () => {
    const like = (kind: ContactKind, cells: readonly string[]) =>
      cells.map(cell => looksLike(kind, cell))
    expect(like('phone', ['+1 (212) 736-5000', '2127365', '2024-01-02', '12', 'a2127365000']))
      .toEqual([true, true, false, false, false])
    expect(like('email', ['a@b.org', 'a b@c.org', 'a@b'])).toEqual([true, false, false])
  })
})

describe('the result columns of a joined file', () => {
  it('are the ones of the service', () => {
    expect(COMMON_RESULT_COLUMNS).toEqual([...STANDARD_COLUMNS, ...COMMON_COLUMNS])
  })

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
