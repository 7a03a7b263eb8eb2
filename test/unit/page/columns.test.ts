import { describe, expect, it } from 'vitest'
import { guess, hasHeader, namesOf } from '../../../services/page/static/columns.js'

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

  it('are guessed by the number of contacts in their cells', () => {
    const rows = [
      ['id', 'mail', 'tel'], ['1', 'a@b.example', '(212) 736-5000'], ['2', '', '12345678'],
    ]
    expect(guess(rows, true)).toEqual({ column: 2, kind: 'phone', hits: 2 })
    expect(guess([['x', 'a@b.example']], false)).toEqual({ column: 1, kind: 'email', hits: 1 })
    expect(guess([['x']], false)).toEqual({ column: 0, kind: 'phone', hits: 0 })
  })
})
