import { readFileSync } from 'node:fs'
import { parse } from 'csv-parse/sync'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { parsePhone } from '../../services/phone/parse.ts'
import { mixedPhones } from '../bench/jobs.ts'
import {
  compareWithLibrary, fuzzedInputs, type WrittenInput,
} from '../support/vendors/numbering.ts'

/** The library throws at every other input, and traces are most of what that takes. */
const { stackTraceLimit } = Error
beforeAll(() => { Error.stackTraceLimit = 0 })
afterAll(() => { Error.stackTraceLimit = stackTraceLimit })

const google = new URL('../support/data/phones.google.json', import.meta.url)
const sample = new URL('../../deploy/sample/phones.csv', import.meta.url)

/** The sample as it is, in two countries and in the country it was written for. */
function sampleInputs (): readonly WrittenInput[] {
  const texts = parse(readFileSync(sample), { from_line: 2 }).map(([text]) => text ?? '')
  const { rows } = JSON.parse(readFileSync(google, 'utf8')) as
    { readonly rows: readonly (readonly [text: string, country: string])[] }
  const anywhere = [undefined, 'US', 'DE'].flatMap(country =>
    texts.map(text => ({ text, country })))
  return [...anywhere, ...rows.map(([text, country]) => ({ text, country: country || undefined }))]
}

describe('the compiled numbering plans', () => {
  it('read, describe and write 100,000 numbers of all plans as the library does', () => {
    const { inputs, canonical, differences } = compareWithLibrary(fuzzedInputs(100_000, 7))
    expect(differences.slice(0, 20)).toEqual([])
    expect(inputs).toBe(100_000)
    // Most inputs must have a form to compare, or the generator is wrong.
    expect(canonical).toBeGreaterThan(60_000)
  })

  it('read 30,000 numbers after words, or of any length, as the library does', () => {
    const words = ['call ', 'Tel. ', 'call me (', 'Fax - ', 'a) ']
    const inputs = [...fuzzedInputs(30_000, 11)].map(({ text, country }, index) => {
      const cut = index % 2 === 0 ? text : text.slice(0, index % 13)
      return { text: `${words[index % words.length]}${cut}`, country }
    })
    const { differences, canonical } = compareWithLibrary(inputs)
    expect(differences.slice(0, 20)).toEqual([])
    expect(canonical).toBeGreaterThan(5_000)
  })

  it('read, describe and write the sample as the library does', () => {
    const { inputs, differences } = compareWithLibrary(sampleInputs())
    expect(differences).toEqual([])
    expect(inputs).toBe(8_000)
  })

  it('leave none of the usual written forms to the reader of cells', () => {
    const rows = mixedPhones(20_000).filter(row => !/^call me /.test(row))
    expect(rows.length).toBeGreaterThan(18_900)
    expect(rows.filter(row => parsePhone(row, 'US') === undefined)).toEqual([])
  })
})
