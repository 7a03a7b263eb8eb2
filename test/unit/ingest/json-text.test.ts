import { describe, expect, it } from 'vitest'
import { findJsonError, inspectJson } from '../../../services/ingest/json-text.ts'
import { seededRandom } from '../../support/random.ts'

const MEGABYTE = 1_024 * 1_024
const distinctKeys = (count: number) =>
  Array.from({ length: count }, (_, index) => `"k${index}":""`).join()

/** A text that counts how many of its characters were read. */
function counted (text: string) {
  let reads = 0
  const spy = {
    length: text.length,
    charCodeAt: (at: number) => {
      reads += 1
      return text.charCodeAt(at)
    },
    indexOf: (what: string, from: number) => {
      const found = text.indexOf(what, from)
      reads += (found === -1 ? text.length : found) - from + 1
      return found
    },
    slice: (from: number, to: number) => {
      reads += to - from
      return text.slice(from, to)
    },
  } as unknown as string
  return { spy, reads: () => reads }
}

const tooDeep = (param?: string) => ({ code: 'invalid_request', ...param && { param } })
const twice = (param: string) =>
  ({ code: 'invalid_request', param, message: 'The field appears twice. Send it once.' })
const tooMany = { code: 'too_many_inputs', param: 'inputs' }

describe('the inspection of JSON texts', () => {
  it.each([
    '{"service":"a","inputs":["1","2"],"metadata":{"a":"1"}}', '"text"', 'no JSON',
    '{"inputs":["a",{"input":"b","id":"c"},{"id":"c","input":"b"}]}', '[{}]',
    '{"a":1,"b":{"a":2},"c":["{","["]}', '{"a":"\\"b\\":","b":"a","c":"{[{["}', '["a","a"]',
    '{"a":"unfinished',
  ])('finds nothing in %s', text => {
    expect(inspectJson(text)).toBeUndefined()
  })

  it.each([
    ['{"inputs":["a",{"id":{}}]}', tooDeep('inputs[1].id')],
    ['{"inputs":[{"id":[]}]}', tooDeep('inputs[0].id')],
    ['{"a":{"b":[]}}', tooDeep('a.b')],
    ['{"inputs":[[]]}', tooDeep('inputs[0]')],
    ['{"metadata":{"a":"1","b":{}}}', tooDeep('metadata.b')],
    ['['.repeat(9), tooDeep()],
    ['{"inputs":[{"id":1},{"id":1,"id":2}]}', twice('id')],
    ['{"inputs":[{"id":1,"\\u0069d":2}]}', twice('id')],
    ['{"a":1 , "a" :2}', twice('a')],
    ['{"a\\\\":1,"a\\\\":2}', twice('a\\')],
    ['{"":1,"":2}', twice('')],
    ['{"a":1,"\\u0061":2}', twice('a')],
  ])('finds the place in %s', (text, fault) => {
    expect(inspectJson(text)).toMatchObject(fault)
  })

  it('accepts items and keys up to the limit', () => {
    const items = (count: number) => `{"inputs":[${'1,'.repeat(count - 1)}1]}`
    const key = 'k'.repeat(256)
    for (const text of [items(100_000), `{${distinctKeys(60)}}`, `{"${key}":1}`]) {
      expect(inspectJson(text)).toBeUndefined()
    }
    expect(inspectJson(items(100_001))).toEqual(tooMany)
    expect(inspectJson(`{${distinctKeys(61)}}`)?.message).toContain('more than 60 fields')
    expect(inspectJson(`{"${key}k":1}`)?.message).toContain('more than 256 characters')
  })

  it('accepts few different keys in all objects of a list, and few such objects in all', () => {
    const objects = (count: number) => `[${'{"a":1,"b":1},'.repeat(count - 1)}{"c":1,"d":1}]`
    const text = (first: number, second: number) =>
      `{"inputs":${objects(first)},"others":${objects(second)}}`
    expect(inspectJson(text(50_000, 50_000))).toBeUndefined()
    expect(inspectJson(text(50_000, 50_001))).toEqual(tooMany)
    expect(inspectJson('{"inputs":[{"a":1,"b":1,"c":1,"d":1},"",{"e":1}]}'))
      .toMatchObject({ param: 'inputs[2]' })
  })

  it.each([
    ['objects among inputs', `{"inputs":[${'{},'.repeat(35 * MEGABYTE / 3)}`],
    ['labels without end', `{"metadata":{${distinctKeys(2_000_000)}}}`],
    ['items without end', `{"inputs":[${'1,'.repeat(17 * MEGABYTE)}`],
    ['levels without end', '{"a":'.repeat(7 * MEGABYTE)],
    ['objects of as many shapes', `{"inputs":[${
      Array.from({ length: 2_000_000 }, (_, index) => `{"k${index}":""}`).join()}`],
  ])('stops at the first violation in 35 MB of %s', (_what, text) => {
    const { spy, reads } = counted(text)
    expect(inspectJson(spy)).toBeDefined()
    expect(reads()).toBeLessThan(MEGABYTE)
  })
})

describe('the position of an error in JSON', () => {
  /** Where JSON.parse names no place, or another one; its places are compared below. */
  it.each([
    ['', 1, 1],
    ['  ', 1, 3],
    ['{"a":tru}', 1, 9],
    ['{"a":nul', 1, 9],
    ['{', 1, 2],
    ['{"a":"x', 1, 8],
    ['{"a":\n\n [1,2,,3]}', 3, 7],
    ['{"a":01}', 1, 7],
    ['{"a":\r\n"\\x"}', 2, 3],
    ['{"a":"\n"}', 1, 7],
    ['\ufeff{"a":1,}', 1, 9],
  ])('in %j is line %d, column %d', (text, line, column) => {
    expect(findJsonError(text)).toEqual({ line, column })
  })

  it('is where JSON.parse fails, and nowhere in what it accepts', () => {
    const random = seededRandom(7)
    const symbols = ['{', '}', '[', ']', ',', ':', '"', '\\', 'u', '0', '1', '-', '.', 'e', 'null',
      'true', ' ', '\n', '\t', 'é', '"a"', '"a":', '\u0001']
    const valid = '{"a": [1, -2.5e+3, "x\\u00e9\\n", {}, []], "b": {"c": null, "d": true}}'
    for (let round = 0; round < 20_000; round++) {
      const at = Math.floor(random() * (valid.length + 1))
      const symbol = symbols[Math.floor(random() * symbols.length)] ?? ''
      const text = valid.slice(0, at) + symbol + valid.slice(at + Math.floor(random() * 3))
      const found = findJsonError(text)
      const failure = failureOf(text)
      expect([text, found === undefined]).toEqual([text, failure === undefined])
      const [, line, column] = /\(line (\d+) column (\d+)\)$/.exec(failure ?? '') ?? []
      // Node names other places in a damaged number or escape.
      if (line !== undefined && !/number|unicode/i.test(failure ?? '')) {
        expect([text, found]).toEqual([text, { line: Number(line), column: Number(column) }])
      }
    }
  })

  it('is found in a deep and in a long text', () => {
    expect(findJsonError('['.repeat(1_000_000))).toEqual({ line: 1, column: 1_000_001 })
    expect(findJsonError(`"${'\\n'.repeat(1_000_000)}`)).toEqual({ line: 1, column: 2_000_002 })
  })
})

function failureOf (text: string): string | undefined {
  try {
    JSON.parse(text)
    return undefined
  } catch (error) {
    return (error as Error).message
  }
}
