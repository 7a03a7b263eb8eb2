import { describe, expect, it } from 'vitest'
import {
  neutralText, VENDOR_COLUMNS, vendorWordsOf,
} from '../../../../services/verify/providers/http-columns.ts'

const words = vendorWordsOf({
  name: 'Zyxoria Ltd', words: ['Numverse'], url: 'https://api.eu3.zyxoria-lookup.com/v1',
})

describe('names that a vendor gives', () => {
  it.each([
    'Vodafone', 'T-Mobile US, Inc.', 'AT&T', 'Orange S.A.', 'Телеком', '中国移动', 'O2 (UK)',
    'Telefónica', "Côte d'Ivoire Telecom", '3 Hutchison', 'SFR / Altice',
  ])('are shown when they look like one: %s', (text) => {
    expect(neutralText(text, words)).toBe(text)
  })

  it('are tidied', () => {
    expect(neutralText('  Vodafone \n D2 ', words)).toBe('Vodafone D2')
  })

  it.each([
    'Zyxoria', 'zyx-oria ltd', 'via ZYXORIA LTD.', 'Numverse Mobile', 'ＮＵＭＶＥＲＳＥ',
    'Zyxoria Lookup', 'acme.com', 'see www.acme', 'https://acme', 'me@acme', 'tsk_9f8e7d6c',
    '9f8e7d6c5b4a', 'task 0a1b2c3d4', 'Order 12345', '9f8e7d6c-0000', '+12127365000', '', '   ',
    '42', 'x'.repeat(61), 'a\u0000b', '<b>Vodafone</b>', '{"a":1}', '=SUM(A1)',
  ])('are hidden when they name the vendor or are none: %s', (text) => {
    expect(neutralText(text, words)).toBeUndefined()
  })

  it('are compared with the words that tell whose a host is', () => {
    expect(words).toEqual(['zyxorialtd', 'numverse', 'eu3', 'zyxorialookup', 'zyxoria', 'lookup'])
    expect(vendorWordsOf({ name: 'One', url: 'http://127.0.0.1:8080' })).toEqual(['one'])
  })
})

describe('a column', () => {
  it.each([
    ['line_type', 'mobile', 'CELL'], ['timezone', 'Europe/Berlin', 'Europe/Zyxoria'],
    ['timezone', 'Asia/Calcutta', 'Zyxoria'], ['mcc', '262', '26'], ['mnc', '01', '1'],
    ['ported', 'true', 'yes'], ['whatsapp', 'false', 'False'], ['catch_all', 'true', '1'],
    ['suggestion', 'gmail.com', 'zyxoria.com'], ['carrier', 'Vodafone', 'zyxoria.com'],
  ])('%s holds %s, but not %s', (column, good, bad) => {
    expect(VENDOR_COLUMNS[column]?.(good, words)).toBe(good)
    expect(VENDOR_COLUMNS[column]?.(bad, words)).toBeUndefined()
  })
})
