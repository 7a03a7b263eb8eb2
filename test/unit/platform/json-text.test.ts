import { describe, expect, it } from 'vitest'
import { inspectJson, JSON_LIMITS } from '../../../services/platform/json-text.ts'

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

describe('the inspection of JSON texts', () => {
  it.each([
    ['{"service":"a","inputs":["1","2"],"metadata":{"a":"1"}}', { kind: 'fine' }],
    ['"text"', { kind: 'fine' }],
    ['no JSON', { kind: 'fine' }],
    ['{"inputs":["a",{}]}', { kind: 'deep', path: 'inputs[1]' }],
    ['{"inputs":[[]]}', { kind: 'deep', path: 'inputs[0]' }],
    ['{"metadata":{"a":"1","b":{}}}', { kind: 'deep', path: 'metadata.b' }],
    ['[{}]', { kind: 'deep', path: '[0]' }],
    ['['.repeat(9), { kind: 'deep', path: '[0]' }],
    ['{"a":1,"b":{"a":2},"c":["{","["]}', { kind: 'fine' }],
    ['{"a":"\\"b\\":","b":"a","c":"{[{["}', { kind: 'fine' }],
    ['["a","a"]', { kind: 'fine' }],
    ['{"a":"unfinished', { kind: 'fine' }],
    ['{"a":1 , "a" :2}', { kind: 'duplicate', key: 'a' }],
    ['{"a\\\\":1,"a\\\\":2}', { kind: 'duplicate', key: 'a\\' }],
    ['{"":1,"":2}', { kind: 'duplicate', key: '' }],
    ['{"a":1,"\\u0061":2}', { kind: 'duplicate', key: 'a' }],
  ])('has the right result for %s', (text, finding) => {
    expect(inspectJson(text)).toEqual(finding)
  })

  it('accepts items and keys up to the limit', () => {
    const items = (count: number) => `{"inputs":[${'1,'.repeat(count - 1)}1]}`
    expect(inspectJson(items(JSON_LIMITS.items))).toEqual({ kind: 'fine' })
    expect(inspectJson(items(JSON_LIMITS.items + 1)))
      .toEqual({ kind: 'many items', limit: JSON_LIMITS.items })
    expect(inspectJson(`{${distinctKeys(JSON_LIMITS.keys)}}`)).toEqual({ kind: 'fine' })
    expect(inspectJson(`{${distinctKeys(JSON_LIMITS.keys + 1)}}`))
      .toEqual({ kind: 'many keys', limit: JSON_LIMITS.keys })
    const key = 'k'.repeat(JSON_LIMITS.keyCharacters)
    expect(inspectJson(`{"${key}":1}`)).toEqual({ kind: 'fine' })
    expect(inspectJson(`{"${key}k":1}`)).toMatchObject({ kind: 'long key' })
  })

  it.each([
    ['objects among inputs', `{"inputs":[${'{},'.repeat(35 * MEGABYTE / 3)}`],
    ['labels without end', `{"metadata":{${distinctKeys(2_000_000)}}}`],
    ['items without end', `{"inputs":[${'1,'.repeat(17 * MEGABYTE)}`],
    ['levels without end', '{"a":'.repeat(7 * MEGABYTE)],
  ])('stops at the first violation in 35 MB of %s', (_what, text) => {
    const { spy, reads } = counted(text)
    expect(inspectJson(spy)).not.toEqual({ kind: 'fine' })
    expect(reads()).toBeLessThan(MEGABYTE)
  })

  it.each([
    ['backslashes', (length: number) => `"${'\\\\'.repeat(length / 2)}"`],
    ['quotes that are escaped', (length: number) => `"${'\\"'.repeat(length / 2)}"`],
    ['spaces after texts', (length: number) => `{${`"a"${' '.repeat(100)}`.repeat(length / 100)}`],
    ['inputs', (length: number) => `{"inputs":["${'x'.repeat(length)}"]}`],
  ])('takes linear time for %s', (_what, textOf) => {
    const costs = [10_000, 100_000].map(length => {
      const { spy, reads } = counted(textOf(length))
      inspectJson(spy)
      return reads() / length
    })
    expect(Math.max(...costs)).toBeLessThan(8)
    expect(costs[1]! / costs[0]!).toBeLessThan(1.5)
  })
})
