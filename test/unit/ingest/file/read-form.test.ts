import { afterAll, beforeEach, describe, expect, it, vi } from 'vitest'
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
