import { describe, expect, it } from 'vitest'
import {
  neutralText, VENDOR_COLUMNS, vendorWordsOf,
} from '../../../../services/verify/providers/http-answer.ts'

const words = vendorWordsOf({
  name: 'Zyxoria Ltd', words: ['Numverse'], url: 'https://api.eu3.zyxoria-lookup.com/v1',
})

describe('a name of a carrier or place from a vendor', () => {
  it.each([
    'Vodafone', 'T-Mobile US, Inc.', 'AT&T', 'Orange S.A.', 'Телеком', '中国移动', 'O2 (UK)',
    'Telefónica', "Côte d'Ivoire Telecom", '3 Hutchison', 'SFR / Altice',
  ])('is kept if it resembles a name: %s', (text) => {
    expect(neutralText(text, words)).toBe(text)
  })

  it('is trimmed and normalized', () => {
    expect(neutralText('  Vodafone \n D2 ', words)).toBe('Vodafone D2')
  })

  it.each([
    'Zyxoria', 'zyx-oria ltd', 'via ZYXORIA LTD.', 'Numverse Mobile', 'ＮＵＭＶＥＲＳＥ',
    'Zyxoria Lookup', 'acme.com', 'see www.acme', 'https://acme', 'me@acme', 'tsk_9f8e7d6c',
    '9f8e7d6c5b4a', 'task 0a1b2c3d4', 'Order 12345', '9f8e7d6c-0000', '+12127365000', '', '   ',
    '42', 'x'.repeat(61), 'a\u0000b', '<b>Vodafone</b>', '{"a":1}', '=SUM(A1)',
  ])('is removed if it identifies the vendor or is no name: %s', (text) => {
    expect(neutralText(text, words)).toBeUndefined()
  })

  it('is compared with the identifying words of name and host', () => {
    expect(words).toEqual(['zyxorialtd', 'numverse', 'eu3', 'zyxorialookup', 'zyxoria', 'lookup'])
    expect(vendorWordsOf({ name: 'One', url: 'http://127.0.0.1:8080' })).toEqual(['one'])
  })
})

describe('a column that a vendor fills', () => {
  it.each([
    ['line_type', 'mobile', 'CELL'], ['timezone', 'Europe/Berlin', 'Europe/Zyxoria'],
    ['timezone', 'Asia/Calcutta', 'Zyxoria'], ['mcc', '262', '26'], ['mnc', '01', '1'],
    ['ported', 'true', 'yes'], ['whatsapp', 'false', 'False'], ['catch_all', 'true', '1'],
    ['suggestion', 'gmail.com', 'zyxoria.com'], ['carrier', 'Vodafone', 'zyxoria.com'],
  ])('%s accepts %s, but not %s', (column, good, bad) => {
    expect(VENDOR_COLUMNS[column]?.(good, words)).toBe(good)
    expect(VENDOR_COLUMNS[column]?.(bad, words)).toBeUndefined()
  })
})
