import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { ApiException } from '../../../../services/ingest/errors.ts'
import { parseUpload } from '../../../support/parse-upload.ts'
import { field, filePart, formOf, FORM_TYPE } from './support.ts'

const immediates = vi.spyOn(globalThis, 'setImmediate')
beforeEach(() => { immediates.mockClear() })
afterAll(() => { immediates.mockRestore() })

/** Slots of the event loop that were taken: each begins and ends in an immediate. */
const slots = () => immediates.mock.calls.length / 2

describe('a form', () => {
  const body = Buffer.from(formOf([
    field('service', 'Ü'), filePart('1\r\n2'), field('delimiter', ''), field('sheet', 'b'),
  ]))

  it('has the bytes of its file, and its fields', async () => {
    const { previewed, fields } = await parseUpload(FORM_TYPE, body)
    expect(String(previewed?.bytes)).toBe('1\r\n2')
    expect(previewed?.csv).toMatchObject({ delimiter: undefined, sheet: 'b' })
    expect(fields).toEqual({ service: 'Ü' })
  })

  it('is read in slices, and not beyond its first violation', async () => {
    const file = filePart('1'.repeat(200_000))
    await parseUpload(FORM_TYPE, Buffer.from(formOf([file])))
    expect(slots()).toBe(13)
    immediates.mockClear()
    const parts = Array.from({ length: 10_000 }, () => field('a', ''))
    await expect(parseUpload(FORM_TYPE, Buffer.from(formOf(parts)))).rejects
      .toMatchObject({ fault: { message: 'The form has more than 100 fields.' } })
    expect(slots()).toBe(2)
  })

  it('is rejected when it is cut anywhere', async () => {
    // Without its last line break it is whole.
    for (let length = 0; length < body.length - 4; length++) {
      await expect(parseUpload(FORM_TYPE, body.subarray(0, length))).rejects
        .toMatchObject({ fault: { code: 'invalid_file' } })
    }
  })
})

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
