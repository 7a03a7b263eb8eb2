import { describe, expect, it } from 'vitest'
import { ApiException } from '../../../../services/ingest/errors.ts'
import { parseUpload } from '../../../support/parse-upload.ts'

const CSV = Buffer.from('+12127365000')

/** Reads the options of a file, in the query of a job's file or in that of one to look at. */
const read = async (
  options: readonly [string, string][], takesFile: 'contacts' | 'preview' = 'contacts'
) => await parseUpload('text/csv', CSV, {
  query: new URLSearchParams(options).toString(), takesFile,
})

describe('the options of a file', () => {
  it('are the fields of the equivalent body', async () => {
    const { fields } = await read([
      ['service', 's'], ['column', '1'], ['header', 'false'], ['delimiter', 'tab'],
      ['forceFresh', 'true'], ['metadata[a]b]', 'c'], ['metadata[]]', ''], ['metadata[]', 'd'],
      ['sheet', ''], ['deadline', '3600'],
    ])
    expect(fields).toEqual({
      inputs: ['+12127365000'],
      service: 's',
      forceFresh: true,
      deadline: 3_600,
      metadata: { 'a]b': 'c', ']': '', '': 'd' },
    })
  })

  it('are those of the file, by the name of a delimiter or itself', async () => {
    const { previewed } = await read([['header', 'false'], ['delimiter', 'tab']], 'preview')
    expect(previewed?.csv).toMatchObject({ header: false, delimiter: '\t' })
    const { previewed: other, fields } = await read([['delimiter', ';']], 'preview')
    expect(other?.csv).toMatchObject({ header: undefined, delimiter: ';' })
    expect(fields).toEqual({})
  })

  it('leave a deadline that is no number to its schema', async () => {
    for (const text of ['6h', '-60', '60.5', '1e3', '0x64', ' 60', '9'.repeat(400)]) {
      expect((await read([['deadline', text]])).fields).toMatchObject({ deadline: text })
    }
  })

  it('are shown truncated if they are unknown', async () => {
    await expect(read([['x'.repeat(1_000), '']])).rejects
      .toMatchObject({ fault: { param: 'x'.repeat(100) } })
  })

  it('are true or false in these words, and in no name that every object has', async () => {
    for (const text of ['toString', 'constructor', '__proto__', 'True', '1']) {
      await expect(read([['header', text]])).rejects.toThrow(ApiException)
      expect((await read([['forceFresh', text]])).fields).toMatchObject({ forceFresh: text })
    }
  })
})
