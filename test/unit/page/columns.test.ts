import { describe, expect, it } from 'vitest'
import {
  findContacts, hasHeader, hasNationalNumbers, namesOf,
} from '../../../services/page/static/columns.js'

describe('the columns of an uploaded file', () => {
  it('have names in the first line unless it contains a contact', () => {
    expect(hasHeader([['name', 'phone'], ['Ann', '+12127365000']])).toBe(true)
    expect(hasHeader([['Ann', '+1 212 736 5000'], ['Bob', '1']])).toBe(false)
    expect(hasHeader([['a@example.com'], ['b@example.com']])).toBe(false)
    expect(hasHeader([['', 'phone'], ['x', 'y']])).toBe(false)
    expect([hasHeader([['only']]), hasHeader([])]).toEqual([false, false])
  })

  it('get numbers where they have no names', () => {
    expect(namesOf([['name', ' '], ['a', 'b', 'c']], true))
      .toEqual(['name', 'Column 2', 'Column 3'])
    expect(namesOf([['x', 'y']], false)).toEqual(['Column 1', 'Column 2'])
  })

  it('are found by the contacts in their cells, those with the most first', () => {
    const rows = [
      ['id', 'mail', 'tel'], ['1', 'a@b.example', '(212) 736-5000'], ['2', '', '12345678'],
    ]
    expect(findContacts(rows, true)).toEqual([
      { column: 2, kind: 'phone', hits: 2 }, { column: 1, kind: 'email', hits: 1 },
    ])
    expect(findContacts([['x']], false)).toEqual([])
  })

  it('need a country for numbers that start with neither + nor 00', () => {
    const rows = [['tel', 'mail'], ['+49 30 901820', 'a@b.example'], ['(+49) 30 901820', '']]
    expect(hasNationalNumbers(rows, true, 0)).toBe(false)
    expect(hasNationalNumbers([...rows, ['0049 30 901820']], true, 0)).toBe(false)
    expect(hasNationalNumbers([...rows, ['030 901820']], true, 0)).toBe(true)
    expect(hasNationalNumbers([...rows, ['030 901820']], true, 1)).toBe(false)
  })
})
