import { describe, expect, it } from 'vitest'
import { readForm } from '../../../../services/ingest/file/read-form.ts'
import { field, filePart, formOf, FORM_TYPE } from './support.ts'

const noPause = async () => {}

describe('a form', () => {
  const body = Buffer.from(formOf([field('a', 'ü'), filePart('1\r\n2'), field('b', '')]))

  it('has the bytes of its file, and its fields in order', async () => {
    const { file, entries } = await readForm(body, FORM_TYPE, noPause)
    expect(String(file)).toBe('1\r\n2')
    expect(entries).toEqual([['a', 'ü'], ['b', '']])
  })

  it('is read in slices, and not beyond its first violation', async () => {
    let pauses = 0
    const pause = async () => { pauses += 1 }
    const file = filePart('1'.repeat(200_000))
    await readForm(Buffer.from(formOf([file])), FORM_TYPE, pause)
    expect(pauses).toBe(13)
    pauses = 0
    const parts = Array.from({ length: 10_000 }, () => field('a', ''))
    await expect(readForm(Buffer.from(formOf(parts)), FORM_TYPE, pause)).rejects
      .toMatchObject({ fault: { message: 'The form has more than 100 fields.' } })
    expect(pauses).toBe(2)
  })

  it('is rejected when it is cut anywhere', async () => {
    // Without its last line break it is whole.
    for (let length = 0; length < body.length - 4; length++) {
      await expect(readForm(body.subarray(0, length), FORM_TYPE, noPause)).rejects
        .toMatchObject({ fault: { code: 'invalid_file' } })
    }
  })
})
