import { rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { uniqueNames } from '../../../schemas/files/csv-format.ts'
import {
  columnsToAppend, contactColumn, type ContactKind, contactKinds, parseOnly,
} from '../../../services/client/columns.ts'
import { detectService } from '../../../services/client/plan.ts'
import { UsageError } from '../../../services/client/terminal.ts'
import { newFolder } from '../../support/folder.ts'

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

  it.each<[ContactKind, string, readonly string[], string]>([
    ['phone', 'id,who,born,reach', ['1,a,1990-01-02,+1 212 736 5000', '2,b,2.3.1991,'], 'reach'],
    ['phone', 'order,mobile', ['1234567,+12127365000', '1234568,+12127365001'], 'mobile'],
    ['phone', 'a,number', ['x,unknown', 'y,none'], 'number'],
    ['phone', 'short,part,long,x', ['212736,a2127365000,1234567890123456,+1 (212) 736-5000'], 'x'],
    ['email', 'phone,mail,x', ['+12127365000,a@b.org,1'], 'mail'],
    ['email', 'space,dot,x', ['a b@c.org,a@b,a@b.org'], 'x'],
    ['email', 'a,b', ['a@b.org,1', 'typing error,2', 'c@d.org,3'], 'a'],
    ['phone', 'Telefon', [], 'Telefon'],
    ['phone', 'whatever', ['x'], 'whatever'],
  ])('of %ss in %s is guessed', (...[kind, header, rows, name]) => {
    expect(contactColumn(table(header, ...rows), { kind })).toMatchObject({ name, guessed: true })
  })

  it.each<[ContactKind, string, readonly string[], string | undefined, string]>([
    ['phone', 'PHONE,phone,Tel,tel', [], 'TEL',
      "2 columns have the name TEL. Select one by its position: --column '#3' or '#4'."],
    ['phone', 'id,,Tel', [], 'mail', 'The file has no column mail. The columns are: id, #2, Tel.'],
    ['phone', 'id,Tel', [], '#3', 'The file has no column #3.'],
    ['phone', 'a,b', ['+12127365000,+12127365001'], undefined, 'Name it with --column'],
    ['phone', 'phone,mobile', ['+12127365000,+12127365001'], undefined, 'are: phone, mobile.'],
    ['email', 'a,b', ['x,y'], undefined, 'Name it with --column'],
    ['phone', '+12127365000', ['+12127365001'], undefined,
      'The first line of the file must contain column'],
  ])('of %ss in %s, named %s, is rejected', (...[kind, header, rows, named, why]) => {
    const find = () => contactColumn(table(header, ...rows), { kind, named })
    expect(find).toThrow(why)
    expect(find).toThrow(UsageError)
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
})

describe('the default service of submit', () => {
  const folder = newFolder('columns-')
  afterAll(() => rmSync(folder, { recursive: true }))
  const detect = async (text: string, column?: string) => {
    writeFileSync(join(folder, 'a.csv'), text)
    return await detectService(join(folder, 'a.csv'), { column }).catch(String)
  }

  it.each<[string, string | undefined, string]>([
    ['\ufeffFirma;Telefon\r\n"A;\r\nB";030 901820\r\n', undefined, 'phone-validation'],
    ['Mobil,E-Mail\n+12127365000,a@b.org\n', 'e-mail', 'email-validation'],
    ['Mobil,E-Mail\n+12127365000,a@b.org\n', undefined, 'of phone numbers and of e-mail addresses'],
    ['a,b\nx,y\n', undefined, 'No column of the file looks like phone numbers or e-mail'],
  ])('of %j is %s', async (text, column, outcome) => {
    expect(await detect(text, column)).toContain(outcome)
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
