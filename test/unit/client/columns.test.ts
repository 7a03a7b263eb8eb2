import { describe, expect, it } from 'vitest'
import { UsageError } from '../../../services/client/command-error.ts'
import {
  contactColumn, kindsIn, looksLike, type ContactKind,
} from '../../../services/client/contact-column.ts'
import {
  addedNames, COMMON_RESULT_COLUMNS, columnsToAdd, wantedColumns,
} from '../../../services/client/result-columns.ts'
import { COMMON_COLUMNS, STANDARD_COLUMNS } from '../../../services/records/columns.ts'

const table = (header: string, ...rows: readonly string[]) =>
  ({ header: header.split(','), rows: rows.map(row => row.split(',')) })

describe('the column of the contacts', () => {
  const people = table('id,Phone,phone,Tel', '1,2,3,4')

  it.each<[string, number]>([['Phone', 1], ['phone', 2], [' TEL ', 3], ['#1', 0]])(
    'named %j is found', (asked, index) => {
      expect(contactColumn(people, { kind: 'phone', asked })).toMatchObject({
        index, guessed: false,
      })
    })

  it.each<[string, string]>([
    ['PHONE', "2 columns are called PHONE; name one by its place: --column '#2' or '#3'."],
    ['mail', 'The file has no column mail. There are: id, Phone, phone, Tel.'],
    ['#5', 'The file has no column #5.'],
  ])('named %j is refused', (asked, why) => {
    const find = () => contactColumn(people, { kind: 'phone', asked })
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
    ['phone', 'a,b', ['+12127365000,+12127365001'], 'Say with --column'],
    ['phone', 'phone,mobile', ['+12127365000,+12127365001'], 'There are: phone, mobile.'],
    ['email', 'a,b', ['x,y'], 'Say with --column'],
    ['phone', '+12127365000', ['+12127365001'], 'The first line of the file must name its columns'],
  ])('of %ss in %s has to be named', (...[kind, header, rows, why]) => {
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
  ])('of %s, asked for %s, tells the kinds', (...[header, asked, rows, kinds]) => {
    expect(kindsIn(table(header, ...rows), asked)).toEqual(kinds)
  })

  it('looks like contacts', () => {
    const like = (kind: ContactKind, cells: readonly string[]) =>
      cells.map(cell => looksLike(kind, cell))
    expect(like('phone', ['+1 (212) 736-5000', '2127365', '2024-01-02', '12', 'a2127365000']))
      .toEqual([true, true, false, false, false])
    expect(like('email', ['a@b.org', 'a b@c.org', 'a@b'])).toEqual([true, false, false])
  })
})

describe('the verification columns', () => {
  it('are those of the service', () => {
    expect(COMMON_RESULT_COLUMNS).toEqual([...STANDARD_COLUMNS, ...COMMON_COLUMNS])
  })

  it('are all but those the file has itself, or those that are wanted', () => {
    expect(columnsToAdd(['row', 'input', 'status', 'role'], undefined)).toEqual(['status', 'role'])
    expect(columnsToAdd(['row', 'input', 'status'], ['status'])).toEqual(['status'])
    expect(wantedColumns(undefined, [])).toBeUndefined()
    expect(wantedColumns('role, status,role', ['role'])).toEqual(['role', 'status'])
    for (const list of ['input', 'status,x', ' , ']) {
      expect(() => wantedColumns(list, ['role'])).toThrow(/^--only: .* phone, e164, .*, role\.$/)
    }
  })

  it('get a prefix where the file has the name', () => {
    expect(addedNames(['status', 'reason', 'e164'], ['STATUS ', 'e164', 'verified_e164']))
      .toEqual(['verified_status', 'reason', 'verified_verified_e164'])
  })
})
