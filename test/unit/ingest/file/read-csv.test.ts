import { describe, expect, it, vi } from 'vitest'
import { ApiException, type ApiError } from '../../../../services/ingest/errors.ts'
import { type FileOptions, readFile } from '../../../support/parse-upload.ts'

const read = (text: string | Buffer, options: FileOptions = {}) =>
  readFile(Buffer.from(text as string), options)

const errorOf = async (text: string | Buffer, options: FileOptions = {}): Promise<ApiError> => {
  const error: unknown = await read(text, options).then(() => undefined, (cause: unknown) => cause)
  if (!(error instanceof ApiException)) throw new Error(`no ApiException: ${String(error)}`)
  return error.fault
}

describe('a CSV file', () => {
  it.each<[what: string, text: string, options: FileOptions, inputs: readonly string[]]>([
    ['of one column without header', '1234567\n1234568', {}, ['1234567', '1234568']],
    ['of one column with header', 'phone\n+12127365000\n', {}, ['+12127365000']],
    ['with a byte order mark', '\ufeffphone\r\n1\r\n', { column: 'phone' }, ['1']],
    ['with semicolons', 'a;b\n1,5;x\n2,5;y', { column: 'b' }, ['x', 'y']],
    ['with tabs', 'a\tb\n1\tx', { column: '2', header: true }, ['x']],
    ['with bars', 'a|b\n1|x', { column: '2', header: true }, ['x']],
    ['with a given delimiter', 'a;b,c\n1;x,y', { column: '2', delimiter: ';' }, ['x,y']],
    ['with a header that is none', 'phone,1\n', { column: '1', header: false }, ['phone']],
    ['with a blank first cell', ',a\n1,b\n', { column: '1' }, ['', '1']],
    ['with short lines', 'a,b\nx\n', { column: 'b' }, ['']],
    ['with blank cells behind', 'a,b\n1,2,,\n', { column: 'b' }, ['2']],
    ['with blank lines', '\n\na\n1\n\n2\n\n\n', { column: 'a' }, ['1', '', '2']],
    ['whose header differs in case', 'Name, PHONE \nx,1\n', { column: 'phone' }, ['1']],
    ['with two names that differ in case', 'phone,Phone\n1,2\n', { column: 'Phone' }, ['2']],
    ['with a line sep=', 'sep=;\r\nname;phone\r\nA, B;1\r\n', { column: 'phone' }, ['1']],
    ['with a quoted line sep= and a mark', '\ufeff"sep=\t"\nname\tphone\nA;B\t1\n',
      { column: 'phone' }, ['1']],
    ['with a line sep= that was padded', 'sep=,,,\na,b\n1,2\n', { column: 'b' }, ['2']],
    ['with a line sep= and another delimiter', 'sep=;\na|b\n1|2\n',
      { column: 'b', delimiter: '|' }, ['2']],
    ['with a line sep= and no header', 'sep=;\r030 901820;x\r', { column: '1' }, ['030 901820']],
    ['with a comma in its header', 'Nachname, Vorname;Telefon\r\nDoe, Jane;1\r\nRoe, Max;2\r\n',
      { column: 'Telefon' }, ['1', '2']],
    ['of one column with commas', 'Name\nDoe, Jane\nRoe, Max\n', {}, ['Doe, Jane', 'Roe, Max']],
    ['of one column with commas and no header', 'a@b.org, x\nc@d.org, y, z\ne@f.org, u, v\n',
      { header: false }, ['a@b.org, x', 'c@d.org, y, z', 'e@f.org, u, v']],
    ['with CR CR LF', 'name,phone\r\r\nAnn,1\r\r\n\r\r\n"Bob\r\r\nRoe",2\r\r\n',
      { column: 'phone' }, ['1', '', '2']],
    ['whose header has a no-break space', 'Name;Telefon\u00a0\nx;1\n', { column: 'Telefon' },
      ['1']],
    ['whose header is decomposed', 'x;Te\u0301l\n1;2\n', { column: 'T\u00e9l' }, ['2']],
    ['with surrounding spaces', 'a\n 1 \n', {}, [' 1 ']],
  ])('%s is read', async (...[, text, options, inputs]) => {
    expect((await read(text, options)).inputs).toEqual(inputs)
  })

  it('keeps the cells of each line, and pads none', async () => {
    const options = { column: '1', header: true }
    const { columns, lines } = await read('a;a;\n1\n\n"x,y";"p""q";z;;', options)
    expect(columns).toEqual(['a', 'a', ''])
    expect(lines).toEqual(['1', '', '"x,y","p""q",z'])
    const unnamed = await read('x,+12127365000\n', { column: '2' })
    expect([unnamed.columns, unnamed.lines]).toEqual([['column_1', 'column_2'], ['x,+12127365000']])
  })

  it('is Windows-1252 if it is not UTF-8', async () => {
    const text = 'Name;E-Mail;Preis\r\nMüller;j\u00f6rg@example.com;5 \u0080\r\n' +
      '\u0093ä\u0094;x;\r\n'
    const { columns, inputs, lines } = await read(Buffer.from(text, 'latin1'), { column: 'E-Mail' })
    expect([columns, inputs]).toEqual([['Name', 'E-Mail', 'Preis'], ['jörg@example.com', 'x']])
    expect(lines).toEqual(['Müller,jörg@example.com,5 €', '“ä”,x,'])
    const everyByte = Buffer.from(Array.from({ length: 224 }, (_, byte) => byte + 32)
      .filter(byte => !['"', ',', ';'].includes(String.fromCharCode(byte))))
    expect((await read(everyByte, { header: false, delimiter: ';' })).inputs)
      .toEqual([new TextDecoder('windows-1252').decode(everyByte)])
  })

  it('is UTF-8 in every cell that is, although another one is not', async () => {
    const utf8 = Buffer.from('Straße;E-Mail\n1;jörg@bücher.example\n')
    const other = Buffer.from('Spa\xdf\x85;j\xf6rg@x.example\nM\xc3;', 'latin1')
    const { columns, inputs, lines } =
      await read(Buffer.concat([utf8, other]), { column: 'E-Mail', delimiter: ';' })
    expect(columns).toEqual(['Straße', 'E-Mail'])
    expect(inputs).toEqual(['jörg@bücher.example', 'jörg@x.example', ''])
    expect(lines.slice(1)).toEqual(['Spaß…,jörg@x.example', 'MÃ,'])
  })

  it.each<[
    what: string, text: string | Buffer, options: FileOptions, code: string, why: RegExp
  ]>([
    ['is empty', '', {}, 'invalid_file', /^The file is empty/],
    ['is blank', '\n\r\n', {}, 'invalid_file', /^The file is empty/],
    ['has a header only', 'phone\n', {}, 'invalid_file', /no rows.*header=false/],
    ['has the mark of UTF-8, and is not', Buffer.from('\u00ef\u00bb\u00bfn\u00e4\n', 'latin1'), {},
      'invalid_encoding', /UTF-8/],
    ['is UTF-16', Buffer.from('a,b\n1,2', 'utf16le'), {}, 'invalid_encoding', /UTF-8/],
    ['has an open quote', 'a\n1\n"2\n3', { column: 'a' }, 'invalid_file',
      /^Line 3 .* begins with a double quote, and no quote/],
    ['has a stray quote before others', 'a;b\n"13;1\n"15;2\n17;3', { column: 'b' }, 'invalid_file',
      /^Line 2 /],
    ['has a line sep= only', 'sep=;\r\n', {}, 'invalid_file', /^The file is empty/],
    ['has a line sep= of no use', 'sep=:\na:b\n', {}, 'invalid_file', /^The first line .* sep=:/],
    ['has too many cells below sep=', 'sep=;\na;b\n1;2;3', { column: 'a' }, 'invalid_file',
      /^Line 3 /],
    ['is compressed', Buffer.of(0x1f, 0x8b, 8, 0), {}, 'invalid_file', /gzip/],
    ['has a long line', `a\n1\n${'é,'.repeat(22_000)}1`, {}, 'invalid_file',
      /^Line 3 of the file has more than 65,536 bytes/],
    ['has 501 columns', 'a,'.repeat(500), {}, 'invalid_file', /^Line 1 .*501 columns.*at most 500/],
    ['has long names', `${Array(100).fill('\u0001'.repeat(60)).join(',')}\n1`,
      { column: '1', header: true }, 'invalid_file', /36,200 bytes as JSON.*at most 32,768/],
    ['has a line with too many cells', 'a,b\n1,2\n1,2,3', { column: 'a' }, 'invalid_file',
      /^Line 3 of the file has 3 cells, but its first line has 2/],
    ['has 100,001 rows', '1\n'.repeat(100_001), { header: false }, 'too_many_inputs',
      /100,000 rows/],
    ['has blank lines for rows', `1\n${'\n'.repeat(100_000)}1`, { header: false },
      'too_many_inputs', /100,000 rows/],
    ['needs a column', 'a,b\n1,2', {}, 'invalid_request',
      /^column is missing\. The file has 2 columns\..*The columns are: a, b\.$/],
    ['lacks the column', 'a,,c\n1,2,3', { column: 'x' }, 'invalid_request',
      /no column "x"\. The columns are: a, 2, c\.$/],
    ['lacks the number', 'a,b\n1,2', { column: '3' }, 'invalid_request', /no column 3: it has 2/],
    ['has two such columns', 'a,b,A\n1,2,3', { column: ' a ' }, 'invalid_request',
      /^2 columns have the name " a "\. Send the number of one: 1, 3\.$/],
    ['has no names', 'a,b\n1,2', { column: 'a', header: false }, 'invalid_request',
      /header is false/],
  ])('that %s is rejected', async (...[, text, options, code, why]) => {
    const fault = await errorOf(text, options)
    expect(fault.code).toBe(code)
    expect(fault.param).toBe(code === 'invalid_request' ? 'column' : 'file')
    expect(fault.message).toMatch(why)
  })

  it.each<[first: string, column: string | undefined, isHeader: boolean]>([
    ['phone', undefined, true],
    ['+12127365000', undefined, false],
    ['ann@example', undefined, false],
    ['12345', undefined, false],
    ['name,phone', 'phone', true],
    ['+12127365000,1', '+12127365000', true],
    ['name,+12127365000', '1', true],
    ['name,+12127365000', '2', false],
  ])('begins with %s for the column %s, which is a header: %s', async (first, column, isHeader) => {
    const row = column === undefined ? '7' : '7,8'
    const { inputs } = await read(`${first}\n${row}`, { column })
    expect(inputs).toHaveLength(isHeader ? 1 : 2)
    expect((await read(`${first}\n7`, { column: '1', header: true })).columns)
      .toEqual(first.split(','))
  })

  it('is read in slices whatever its size', async () => {
    const immediates = vi.spyOn(globalThis, 'setImmediate')
    await read('1\n2\n')
    // A slot of the event loop begins and ends in an immediate.
    expect(immediates).toHaveBeenCalledTimes(2)
    await read(`1234567${'\n'.repeat(655_360)}`)
    expect(immediates.mock.calls.length).toBeGreaterThan(20)
    immediates.mockRestore()
  })

  it('without header is rejected without its contacts', async () => {
    const { message } = await errorOf('Ann,ann@example.com,+12127365000\n')
    expect(message).toMatch(/3 columns/)
    expect(message).not.toMatch(/Ann|ann|2127/)
  })

  it('lists at most 50 of its columns', async () => {
    const names = Array.from({ length: 60 }, (_, index) => `c${index + 1}`)
    expect((await errorOf(`${names.join(',')}\n`)).message).toMatch(/c49, c50, and 10 more\.$/)
  })
})
