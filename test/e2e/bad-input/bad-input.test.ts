import { afterAll, beforeAll, expect, it } from 'vitest'
import './bodies.ts'
import './connections.ts'
import './fields.ts'
import './files.ts'
import './readings.ts'
import './addresses.ts'
import { heard, start, stop, undocumented } from './support.ts'

beforeAll(start)
afterAll(stop)

it('no bad input causes a server error', () => {
  expect(heard.length).toBeGreaterThan(500)
  expect(undocumented()).toEqual([])
})
