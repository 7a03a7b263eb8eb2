import { describe, expect, it } from 'vitest'
import { BadRequest, parseRequest } from '../../../../deploy/local/front/request.ts'
import {
  canStream, hasSecondStatement, literalOf, splitInsert,
} from '../../../../deploy/local/front/sql.ts'

const nothing = Buffer.alloc(0)
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
    expect(codeOf(() => parseRequest([['param_x=1; DROP', '1']], Buffer.from('SELECT 1')))).toBe(36)
    expect(codeOf(() => parseRequest([['a, b', '1']], Buffer.from('SELECT 1')))).toBe(36)
    expect(codeOf(() => parseRequest([['param_', '1']], Buffer.from('SELECT 1')))).toBe(36)
  })

  it('refuses a second statement and an empty query', () => {
    expect(codeOf(() => parseRequest([], Buffer.from('SELECT 1; DROP TABLE t')))).toBe(62)
    expect(codeOf(() => parseRequest([], Buffer.from('  \n')))).toBe(62)
    expect(parseRequest([], Buffer.from('SELECT 1;\n')).sql).toBe('SELECT 1;\n')
  })

  it('keeps the data of an INSERT out of its text', () => {
    const data = '{"a":"; DROP TABLE t"}\n\n{"a":"é"}'
    const query = 'INSERT INTO t (a) SETTINGS x = 1 FORMAT JSONEachRow'
    const inUrl = parseRequest([['query', query]], Buffer.from(data))
    expect(inUrl.insert?.text.head).toBe('INSERT INTO t (a)')
    expect(inUrl.insert?.text.tail).toBe(' SETTINGS x = 1 FORMAT JSONEachRow')
    expect(inUrl.insert?.data.toString()).toBe(data)
    const inBody = parseRequest([], Buffer.from(`${query}\n${data}`))
    expect(inBody.insert?.data.toString()).toBe(data)
    expect(inBody.sql).toBe(`${query}\n`)
  })

  it('joins a query in the URL with values in the body', () => {
    const request = parseRequest([['query', 'INSERT INTO t VALUES']], Buffer.from('(1), (2)'))
    expect(request.sql).toBe('INSERT INTO t VALUES\n(1), (2)')
    expect(request.insert).toBeUndefined()
    expect(parseRequest([['query', 'SELECT 1']], nothing).sql).toBe('SELECT 1')
  })
})

describe('reading SQL', () => {
  it('sees a semicolon only outside of literals', () => {
    expect(hasSecondStatement("SELECT ';x' -- ; y\n;")).toBe(false)
    expect(hasSecondStatement('SELECT \'b;\\\'c;\', "d;", `e;` /* g; */')).toBe(false)
    expect(hasSecondStatement("SELECT 'it''s; x'")).toBe(false)
    expect(hasSecondStatement('SELECT 1; -- end')).toBe(false)
    expect(hasSecondStatement('SELECT 1; SELECT 2')).toBe(true)
    expect(hasSecondStatement("SELECT 1; 'x'")).toBe(false)
  })

  it('finds the format of an INSERT, not a column or a string of that name', () => {
    const named = splitInsert('INSERT INTO t (a, format) FORMAT CSV')
    expect(named?.head).toBe('INSERT INTO t (a, format)')
    expect(splitInsert('INSERT INTO t SELECT 1 FORMAT CSV')).toBeUndefined()
    expect(splitInsert("INSERT INTO t SELECT ' FORMAT CSV'")).toBeUndefined()
    expect(splitInsert('INSERT INTO t FORMAT Values (1)')).toBeUndefined()
    expect(splitInsert('SELECT 1 FORMAT JSON')).toBeUndefined()
  })

  it('streams only reads in formats that may be cut', () => {
    expect(canStream('SELECT 1 FORMAT JSONEachRow', 'CSV')).toBe(true)
    expect(canStream('WITH 1 AS x SELECT x', 'TabSeparated')).toBe(true)
    expect(canStream('SELECT 1 \nFORMAT JSON', 'CSV')).toBe(false)
    expect(canStream('SELECT 1 FORMAT CSVWithNames', 'CSV')).toBe(false)
    expect(canStream('CREATE TABLE t (a Int8) ENGINE = Memory', 'CSV')).toBe(false)
  })

  it('writes literals that cannot be left', () => {
    expect(literalOf("a'b\\c\0")).toBe("'a\\'b\\\\c\\0'")
    expect(hasSecondStatement(`SELECT ${literalOf("\\'; DROP TABLE t; --")}`)).toBe(false)
  })
})
