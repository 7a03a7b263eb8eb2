import { describe, expect, it } from 'vitest'
import { BadRequest, parseRequest } from '../../../../deploy/local/front/request.ts'
import {
  canStream, hasSecondStatement, literalOf, splitInsert,
} from '../../../../deploy/local/front/sql.ts'

const codeOf = (work: () => unknown): number | undefined => {
  try {
    work()
  } catch (error) {
    if (error instanceof BadRequest) return error.code
  }
}

describe('reading a request', () => {
  it('distinguishes parameters, settings and transport', () => {
    const request = parseRequest([
      ['query_id', 'q1'], ['param_x', "['it\\'s']"], ['max_threads', '1'], ['session_id', 's'],
      ['database', 'd2'], ['enable_http_compression', '1'], ['default_format', 'CSV'],
    ], Buffer.from('SELECT {x:Array(String)}'))
    expect(request).toEqual({
      sql: 'SELECT {x:Array(String)}',
      parameters: new Map([['x', "['it\\'s']"]]),
      settings: new Map([['max_threads', '1']]),
      database: 'd2',
      defaultFormat: 'CSV',
    })
  })

  it('refuses names that could carry SQL', () => {
    for (const name of ['param_x=1; DROP', 'a, b', 'param_']) {
      expect(codeOf(() => parseRequest([[name, '1']], Buffer.from('SELECT 1')))).toBe(36)
    }
  })

  it('refuses a second statement and an empty query', () => {
    expect(codeOf(() => parseRequest([], Buffer.from('SELECT 1; DROP TABLE t')))).toBe(62)
    expect(codeOf(() => parseRequest([], Buffer.from('  \n')))).toBe(62)
    expect(parseRequest([], Buffer.from('SELECT 1;\n')).sql).toBe('SELECT 1;\n')
  })

  it('keeps the data of an INSERT out of its text, and values in it', () => {
    const data = '{"a":"; DROP TABLE t"}\n\n{"a":"é"}'
    const query = 'INSERT INTO t (a) SETTINGS x = 1 FORMAT JSONEachRow'
    for (const { insert } of [
      parseRequest([['query', query]], Buffer.from(data)),
      parseRequest([], Buffer.from(`${query}\n${data}`)),
    ]) expect(insert?.data.toString()).toBe(data)
    expect(parseRequest([['query', 'INSERT INTO t VALUES']], Buffer.from('(1), (2)')).sql)
      .toBe('INSERT INTO t VALUES\n(1), (2)')
  })
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

  it.each([
    ['SELECT 1 FORMAT JSONEachRow', 'CSV', true],
    ['WITH 1 AS x SELECT x', 'TabSeparated', true], ['SELECT 1 \nFORMAT JSON', 'CSV', false],
    ['SELECT 1 FORMAT CSVWithNames', 'CSV', false],
    ['CREATE TABLE t (a Int8) ENGINE = Memory', 'CSV', false],
  ])('streams only reads in formats that may be cut: %j in %s: %s', (sql, format, may) => {
    expect(canStream(sql, format)).toBe(may)
  })

  it('writes literals that cannot be left', () => {
    expect(literalOf("a'b\\c\0")).toBe("'a\\'b\\\\c\\0'")
    expect(hasSecondStatement(`SELECT ${literalOf("\\'; DROP TABLE t; --")}`)).toBe(false)
  })
})
