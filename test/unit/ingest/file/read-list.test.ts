import { describe, expect, it } from 'vitest'
import type { ListFile } from '../../../../services/ingest/file.ts'
import { parseUpload } from '../../../support/parse-upload.ts'

const read = async (text: string) => (await parseUpload<ListFile>(
  'text/csv', Buffer.from(text), { takesFile: 'entries' })).fields

describe('a file with entries of contact lists', () => {
  it('has its columns in any order, others are ignored, blank lines are no entries', async () => {
    const file = await read('\ufeffNote;List;Entry;KIND\nx;Suppress;a.example;\n;;;\n\n' +
      'y;allow;+4930*;prefix;more\nz; REMOVE ;b.example;Domain\n')
    expect(file.changes(undefined)).toEqual([
      { text: 'a.example', action: 'suppress' },
      { text: '+4930*', action: 'allow', kind: 'prefix' },
      { text: 'b.example', action: 'remove', kind: 'domain' },
    ])
    expect(file.changes('block').map(({ action }) => action)).toEqual(['block', 'block', 'block'])
  })

  it('may be one column without a name, with an action for all lines', async () => {
    expect((await read('a.example\nb.example')).changes('block')).toEqual([
      { text: 'a.example', action: 'block' }, { text: 'b.example', action: 'block' },
    ])
  })

  it('names the lines that cannot be used, as the file counts them', async () => {
    const file = await read(
      'entry,list,kind\n"a\nb",block,\n\nc.example,deny,\nd.example,allow,mail\n')
    expect(() => file.changes(undefined)).toThrow(expect.objectContaining({
      fault: {
        code: 'invalid_file',
        param: 'file',
        message: 'Nothing was changed, as 2 lines of the file cannot be used. Line 5: list is ' +
          '"deny". Write one of: allow, block, suppress, remove. Line 6: kind is "mail". Leave ' +
          'it blank, or write one of: address, domain, tld, mx, number, prefix.',
      },
    }))
    expect(file.error([{ index: 0, message: 'No.' }], 12).fault.message)
      .toBe('Nothing was changed, as 12 lines of the file cannot be used. Line 3: No. And 11 more.')
  })

  it.each([
    ['', 'The file has no entries'],
    ['entry,list\n', 'The file has no entries'],
    ['\n\n\n', 'The file has no entries'],
    ['mail,list\na.example,block\n', 'names no column "entry"'],
    ['entry\n"a.example\n', 'no quote that ends it'],
    [`entry\n${'a'.repeat(70_000)}\n`, 'more than 65,536 bytes'],
    [`entry\n${'a.example\n'.repeat(100_001)}`, 'more than 100,000 entries'],
    ['PK\u0003\u0004 a workbook', 'ZIP archive'],
  ])('is refused as a whole: %#', async (text, message) => {
    await expect(read(text)).rejects.toMatchObject({
      fault: { code: 'invalid_file', message: expect.stringContaining(message) },
    })
  })
})
