import { expect, it } from 'vitest'
import { newId, timeOfId } from '../../../../services/runtime/platform/ids.ts'

const NOW_MS = 1_764_000_000_123

it('ids begin with their kind and the time', () => {
  const id = newId('job', NOW_MS)
  expect(id).toMatch(/^job_[0-9a-hjkmnp-tv-z]{26}$/)
  expect(timeOfId(id)).toBe(NOW_MS)
  expect(newId('we', NOW_MS).slice(0, 13)).toBe(`we_${id.slice(4, 14)}`)
})

it('no two ids are equal, and every character occurs', () => {
  const ends = Array.from({ length: 5_000 }, () => newId('req', NOW_MS).slice(14))
  expect(new Set(ends).size).toBe(5_000)
  for (let at = 0; at < 16; at++) expect(new Set(ends.map(end => end[at])).size).toBe(32)
})

it('a text that is not an id has no time', () => {
  expect(() => timeOfId('job_1')).toThrow('Malformed ULID')
})
