import { describe, expect, it } from 'vitest'
import { ApiException } from '../../../../services/ingest/errors.ts'
import { readFileOptions } from '../../../../services/ingest/file/read-form.ts'

describe('the options of a file', () => {
  it('are those of the file, and the fields of the equivalent body', () => {
    expect(readFileOptions([
      ['service', 's'], ['column', '2'], ['header', 'false'], ['delimiter', 'tab'],
      ['forceFresh', 'true'], ['metadata[a]b]', 'c'], ['metadata[]]', ''], ['metadata[]', 'd'],
      ['countryCode', ''], ['deadline', '3600'],
    ])).toEqual({
      csv: { column: '2', header: false, delimiter: '\t' },
      fields: {
        service: 's', forceFresh: true, deadline: 3_600, metadata: { 'a]b': 'c', ']': '', '': 'd' },
      },
    })
    expect(readFileOptions([['delimiter', ';']]))
      .toEqual({ csv: { column: undefined, header: undefined, delimiter: ';' }, fields: {} })
  })

  it('leave a deadline that is no number to its schema', () => {
    for (const text of ['6h', '-60', '60.5', '1e3', '0x64', ' 60', '9'.repeat(400)]) {
      expect(readFileOptions([['deadline', text]]).fields).toEqual({ deadline: text })
    }
  })

  it('are shown truncated if they are unknown', () => {
    const read = () => readFileOptions([['x'.repeat(1_000), '']])
    expect(read).toThrow(ApiException)
    try {
      read()
    } catch (error) {
      expect((error as ApiException).fault.param).toBe('x'.repeat(100))
    }
  })

  it('are true or false in these words, and in no name that every object has', () => {
    for (const text of ['toString', 'constructor', '__proto__', 'True', '1']) {
      expect(() => readFileOptions([['header', text]])).toThrow(ApiException)
      expect(readFileOptions([['forceFresh', text]]).fields).toEqual({ forceFresh: text })
    }
  })
})
