import { describe, expect, it } from 'vitest'
import { BadRequest, parseRequest } from '../../../../deploy/local/front/request.ts'
import {
  hasSecondStatement, quoteLiteral, splitInsert,
} from '../../../../deploy/local/front/sql.ts'

const codeOf = (work: () => unknown): number | undefined => {
  try {
    work()
  } catch (error) {
    if (error instanceof BadRequest) return error.code
  }
}

it('reading a request refuses names that could carry SQL', () => {
  for (const name of ['param_x=1; DROP', 'a, b', 'param_']) {
    expect(codeOf(() => parseRequest([[name, '1']], Buffer.from('SELECT 1')))).toBe(36)
  }
})

describe('reading SQL', () => {
  it.each([
    ["SELECT ';x' -- ; y\n;", false], ['SELECT \'b;\\\'c;\', "d;", `e;` /* g; */', false],
    ["SELECT 'it''s; x'", false], ['SELECT 1; -- end', false], ['SELECT 1; SELECT 2', true],
    ["SELECT 1; 'x'", false],
  ])('sees a second statement only outside of literals: %j', (sql, isSeen) => {
    expect(hasSecondStatement(sql)).toBe(isSeen)
  })

  it.each([
    ['INSERT INTO t (a, format) FORMAT CSV', 'INSERT INTO t (a, format)'],
    ['INSERT INTO t SELECT 1 FORMAT CSV', undefined],
    ["INSERT INTO t SELECT ' FORMAT CSV'", undefined], ['SELECT 1 FORMAT JSON', undefined],
    ['INSERT INTO t FORMAT Values (1)', undefined],
  ])('finds the format of an INSERT, not a column or a string of that name: %s', (sql, head) => {
    expect(splitInsert(sql)?.head).toBe(head)
  })

  it('writes literals that cannot be left', () => {
    expect(quoteLiteral("a'b\\c\0")).toBe("'a\\'b\\\\c\\0'")
    expect(hasSecondStatement(`SELECT ${quoteLiteral("\\'; DROP TABLE t; --")}`)).toBe(false)
  })
})
