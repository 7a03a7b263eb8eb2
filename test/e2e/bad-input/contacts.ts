import { describe, expect, it } from 'vitest'
import { runJob } from '../../support/stacks/environment.ts'
import { newCustomer, newNumbers, service, shared } from './support.ts'

const email = 'email-validation'

/** The rows a job of a test key ends with. */
async function rowsOf (inputs: readonly string[], slug = service, countryCode?: string) {
  const { environment } = shared()
  const { created, rows } = await runJob(environment.test, {
    service: slug as typeof service, inputs, ...(countryCode === undefined ? {} : { countryCode }),
  })
  return { preflight: created.preflight, rows }
}

const isInvalid = (one: Readonly<Record<string, string>>) =>
  one.source === 'preflight' && one.status === 'invalid'

describe('contacts that are none', () => {
  it('empty and blank inputs are invalid rows and free', async () => {
    const blanks = ['', ' ', '\t', '\n', '\r\n', '   \t ', '\u00a0', '\u3000', '\ufeff']
    const jobs = await Promise.all([service, email].map(slug => rowsOf(blanks, slug)))
    for (const { preflight, rows } of jobs) {
      expect(preflight).toMatchObject({ invalidRows: blanks.length, freshChecks: 0 })
      expect(rows.map(it => it.input)).toEqual(blanks)
      expect(rows.every(isInvalid)).toBe(true)
    }
  })

  it('control characters and lone surrogates are invalid rows in a well-formed file', async () => {
    const odd = ['\u0000', '\u0007+12127365000\u0007', 'a\u0000@example.com', '\u009b1', '\ud800',
      '\udc00\ud800', 'jane\ud800@example.com', '\u001b[2J']
    const { rows } = await rowsOf(odd, email)
    expect(rows.map(isInvalid)).toEqual(odd.map(() => true))
    expect(rows.map(it => it.input)).toEqual(odd.map(text => text.toWellFormed()))
    const { rows: phones } = await rowsOf(['\ud800', '\u0000', 'a\u0000b'])
    expect(phones.map(isInvalid)).toEqual([true, true, true])
  })

  it('invisible characters do not make a phone number another, nor an address valid', async () => {
    const plain = '+12127365000'
    const dressed = ['\u202d+12127365000\u202c', '+1\u200b2127365000', '\u2066+12127365000\u2069',
      '+1\u00ad212\u00ad736\u00ad5000', '\ufeff+12127365000', '+1212736\u200d5000']
    const { rows } = await rowsOf([plain, ...dressed])
    // Whatever is taken for a number is that number; nothing else may come of it.
    for (const [index, one] of rows.entries()) {
      const taken = one.e164 === plain && one.duplicate_of === (index === 0 ? '' : '1')
      expect([one.input, taken || isInvalid(one)]).toEqual([one.input, true])
    }
    const mails = ['ja\u200bne@example.com', 'jane@exam\u202eple.com', 'jane\u2066@example.com',
      'jane@example.com\u202c']
    const { rows: addresses } = await rowsOf(mails, email)
    expect(addresses.filter(one => one.status === 'valid').map(it => it.email))
      .toEqual(addresses.filter(one => one.status === 'valid').map(() => 'jane@example.com'))
  })

  it('digits and domains of any script are one canonical form', async () => {
    const numbers = ['+12127365000', '＋１２１２７３６５０００', '+١٢١٢٧٣٦٥٠٠٠', '+۱۲۱۲۷۳۶۵۰۰۰']
    const { rows } = await rowsOf(numbers)
    expect(rows.map(it => it.e164)).toEqual(numbers.map(() => '+12127365000'))
    expect(rows.map(it => it.duplicate_of)).toEqual(['', '1', '1', '1'])
    const domains = ['a@bücher.example.com', 'a@bu\u0308cher.example.com',
      'a@BÜCHER.EXAMPLE.COM', 'a@xn--bcher-kva.example.com', 'a@ｅxample.com', 'a@example.com',
      'A@example.com']
    const { rows: mails } = await rowsOf(domains, email)
    // Local parts are compared without case, and every row keeps its own spelling.
    expect(mails.map(it => it.duplicate_of)).toEqual(['', '1', '1', '1', '', '5', '5'])
    expect(mails.map(it => it.email).slice(4))
      .toEqual(['a@example.com', 'a@example.com', 'A@example.com'])
    // A letter of another script is another domain.
    const { rows: alike } = await rowsOf(['a@example.com', 'a@ex\u0430mple.com'], email)
    expect(alike.map(it => it.duplicate_of)).toEqual(['', ''])
  })

  it('prefixes, extensions, letters and too many digits have one outcome each', async () => {
    const e164 = async (inputs: readonly string[], countryCode?: string) =>
      (await rowsOf(inputs, service, countryCode)).rows.map(it => it.e164)
    const number = '+12127365000'
    const [nowhere, american, british, wrong, further] = await Promise.all([
      e164(['+1 (212) 736-5000', '001 212 736 5000', '0011 212 736 5000', number]),
      e164(['011 1 212 736 5000', '212-736-5000', '1 212 736 5000'], 'US'),
      e164(['00 1 212 736 5000', '020 7946 0958'], 'GB'),
      rowsOf(['+012127365000', '+1234567890123456', '1'.repeat(300), '+', '++1', '+1',
        '+999999999999', 'tel:', '()', '-']),
      rowsOf(['+12127365000 ext. 12', '+1212PENNSYL', 'tel:+12127365000']),
    ])
    expect(nowhere).toEqual([number, '', '', number])
    expect(american).toEqual([number, number, number])
    expect(british).toEqual([number, '+442079460958'])
    expect(wrong.rows.map(isInvalid)).toEqual(wrong.rows.map(() => true))
    for (const one of further.rows) expect(isInvalid(one) || one.e164 !== '').toBe(true)
  })
})

it('a job of invalid rows and duplicates alone completes and costs nothing', async () => {
  const { client, balance } = await newCustomer()
  const { created, job } = await runJob(client, { service, inputs: ['x', 'x', '', 'y@z.com'] })
  expect(created.preflight).toMatchObject({ invalidRows: 4, maxQuoteMicros: 0 })
  expect(job).toMatchObject({ status: 'completed', chargedMicros: 0, releasedMicros: 0 })
  const [known = ''] = newNumbers(1)
  await runJob(client, { service, inputs: [known] })
  const before = await balance()
  const again = await runJob(client, { service, inputs: [known, known, ` ${known}`, 'x'] })
  expect(again.job).toMatchObject({ status: 'completed', chargedMicros: 0, cacheHits: 1 })
  expect(await balance()).toMatchObject({
    availableMicros: before.availableMicros, reservedMicros: 0,
  })
})
