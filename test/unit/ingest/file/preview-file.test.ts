import { describe, expect, it } from 'vitest'
import { lowestCost } from '../../../support/lowest-cost.ts'
import { rowOf, workbookOf } from '../../../support/workbooks.ts'
import { errorOf, fileSender } from './support.ts'

/** The preview of a file by the REST interface. */
async function preview (file: string | Buffer, query = ''): Promise<Record<string, unknown>> {
  const { send } = fileSender()
  const answer = await send('text/csv', file, { path: 'file-previews', query })
  expect(answer.statusCode).toBe(200)
  return answer.json()
}

const table = (header: string, ...rows: readonly string[]) => [header, ...rows].join('\n')

describe('the column of the contacts', () => {
  it.each<[string, readonly string[], string, number]>([
    ['id,who,born,reach', ['1,a,1990-01-02,+1 212 736 5000', '2,b,2.3.1991,'], '', 4],
    ['order,mobile', ['1234567,+12127365000', '1234568,+12127365001'], '', 2],
    ['a,number', ['x,unknown', 'y,none'], '', 2],
    ['short,part,long,x', ['212736,a2127365000,1234567890123456,+1 (212) 736-5000'], '', 4],
    ['phone,mail,x', ['+12127365000,a@b.org,1'], 'service=email-validation', 2],
    ['space,dot,x', ['a b@c.org,a@b,a@b.org'], '', 3],
    ['a,b', ['a@b.org,1', 'typing error,2', 'c@d.org,3'], '', 1],
    ['whatever', ['x'], 'service=whatsapp', 1],
    ['mobile,e-mail', ['+12127365000,a@b.org'], 'column=E-Mail', 2],
    ['Handynummer,x', ['?,1'], 'column=1', 1],
  ])('of %s with %j and %j is number %j', async (...[header, rows, query, column]) => {
    expect(await preview(table(header, ...rows), query)).toMatchObject({ column, header: true })
  })

  it.each<[string, readonly string[], string, string]>([
    ['a,b', ['+12127365000,+12127365001'], '',
      'Several columns may be meant, of phone numbers: "a", "b".'],
    ['phone,mobile', ['+12127365000,+12127365001'], '', 'of phone numbers: "phone", "mobile".'],
    ['Mobil,E-Mail', ['+12127365000,a@b.org'], '',
      'of phone numbers and of e-mail addresses: "Mobil", "E-Mail".'],
    ['a,b', ['x,y'], '', 'No column looks like phone numbers or e-mail addresses.'],
    ['a,b', ['x,y'], 'service=whatsapp', 'No column looks like phone numbers.'],
    ['a,b', [], '', 'No column looks like phone numbers or e-mail addresses.'],
    ['contact', ['?'], 'column=1', 'Column "contact" does not clearly look like phone numbers or'],
    ['a', [`${'a@'.repeat(160)}.b`], '', 'does not clearly look like'],
  ])('of %s with %j and %j is left open', async (...[header, rows, query, reason]) => {
    expect(await preview(table(header, ...rows), query)).toMatchObject({
      column: null, service: null, country: null, reason: expect.stringContaining(reason),
    })
  })

  it('is found in the first 1,000 lines, which are named as a job names them', async () => {
    const rows = Array.from({ length: 1_000 }, () => 'a;+12127365000')
    expect(await preview(table('name;phone', ...rows, '"not read'))).toEqual({
      column: 2,
      service: 'phone-validation',
      reason: 'Column "phone": 1,000 of 1,000 cells look like phone numbers, and it is named so.',
      header: true,
      columns: ['name', 'phone'],
      rows: 1_000,
      delimiter: 'semicolon',
      sheet: null,
      sheets: [],
      candidates: [
        { column: 2, service: 'phone-validation', kind: 'phone', filled: 1_000, matching: 1_000 },
      ],
      country: null,
    })
    expect(await preview(table('a,+12127365000', 'b,+12127365001'))).toMatchObject({
      column: 2, header: false, columns: ['column_1', 'column_2'], rows: 2,
    })
    expect(await preview(table('a,+12127365000', 'b,1'), 'header=true')).toMatchObject({
      header: true, columns: ['a', '+12127365000'],
    })
  })

  it('of a workbook is that of the sheet, whose others are named', async () => {
    const workbook = workbookOf({
      sheets: ['List', 'Notes'], rows: `${rowOf(2, 'Mail', 'x')}${rowOf(4, 'a@b.org')}`,
    })
    expect(await preview(workbook)).toMatchObject({
      column: 1,
      service: 'email-validation',
      delimiter: null,
      sheet: 'List',
      rows: 2,
      sheets: ['List', 'Notes'],
    })
    const names = Array.from({ length: 101 }, (_, at) => `Sheet ${at + 1}`)
    const { sheets } = await preview(workbookOf({ sheets: names, rows: rowOf(2, 'a@b.org') }))
    expect(sheets).toEqual(names.slice(0, 100))
    const { send } = fileSender()
    const answer = await send('text/csv', workbook, { path: 'file-previews', query: 'sheet=notes' })
    expect(errorOf(answer)).toEqual([400, 'invalid_file', 'file'])
  })
})

describe('numbers without a country code', () => {
  it.each<[string, readonly string[]]>([
    ['DE', ['030 901820', '(0171) 2345678', '089/21801234', '+49 40 42828-0', '0049 30 227 0']],
    ['US', ['(212) 736-5000', '3105551234', '415-555-2671', '+1 650 253 0000']],
    ['IT', ['06 6982 1', '333 1234567', '02 72002536', '347 7654321', '055 2768224', '081 7955000',
      '011 4422222', '320 1234567', '388 1234567', '0521 218889']],
    ['IN', ['98765 43210', '022 2659 5000', '099 1234 5678', '70123 45678', '080 2221 5555',
      '88001 23456', '040 2345 6789', '99876 54321']],
  ])('are said to be of %s by its numbering plan: %j', async (guess, numbers) => {
    const file = table('phone', ...numbers)
    expect(await preview(file)).toMatchObject({ country: { guess } })
  })

  it('are counted with the share that fits', async () => {
    const numbers = ['030 901820', '0171 2345678', '089 21801234', '0999999', '+49 30 901820']
    expect(await preview(table('phone', ...numbers))).toMatchObject({
      country: {
        numbers: 4,
        guess: 'DE',
        matching: 0.75,
        reason: '4 of 5 numbers have no country code. 75 % of them fit the numbering plan of ' +
          'Germany.',
      },
    })
    expect(await preview(table('phone', '0000000', '+49 30 901820'))).toMatchObject({
      country: { numbers: 1, guess: null, matching: 0 },
    })
  })
})

it('a cell costs what its characters cost, whatever they are', async () => {
  const costOf = async (cell: string) => {
    const line = (text: string) => Array(100).fill(text).join(',')
    const file = table(line('a'), ...Array<string>(50).fill(line(cell)))
    const before = process.threadCpuUsage()
    await preview(file)
    const { user, system } = process.threadCpuUsage(before)
    return user + system
  }
  const most = 5 * await lowestCost(() => costOf(`${'a'.repeat(312)}@b.org`), 0)
  const dots = `a@${'.'.repeat(315)}@`
  expect(await lowestCost(() => costOf(dots), most)).toBeLessThanOrEqual(most)
})
