import { describe, expect, it } from 'vitest'
import { readForm } from '../../../../services/ingest/file/read-form.ts'
import { field, filePart, formOf, FORM_TYPE } from './support.ts'

describe('a form', () => {
  const body = Buffer.from(formOf([field('a', 'ü'), filePart('1\r\n2'), field('b', '')]))

  it('has the bytes of its file, and its fields in order', async () => {
    const { file, entries } = await readForm(body, FORM_TYPE)
    expect(String(file)).toBe('1\r\n2')
    expect(entries).toEqual([['a', 'ü'], ['b', '']])
  })

  it('is rejected when it is cut anywhere', async () => {
    // Without its last line break it is whole.
    for (let length = 0; length < body.length - 4; length++) {
      await expect(readForm(body.subarray(0, length), FORM_TYPE)).rejects
        .toMatchObject({ fault: { code: 'invalid_file' } })
    }
  })
})
