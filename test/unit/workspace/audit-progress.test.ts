import { expect, it } from 'vitest'
import { startProgress } from '../../../services/workspace/audit-progress.ts'

function said (all: { readonly entries: number, readonly rows: number }) {
  const lines: string[] = []
  const clock = { ms: 0 }
  const onRead = startProgress({ ...all, tenants: 3 }, {
    say: line => lines.push(line), now: () => clock.ms,
  })
  return { lines, clock, onRead }
}

it('the progress of an audit begins with what there is to read, and about how long', () => {
  const startOf = (entries: number, rows: number) => said({ entries, rows }).lines[0]
  expect(startOf(7, 0)).toBe('reading 7 journal entries and about 0 rows of results of ' +
    '3 tenants: less than a minute')
  expect(startOf(3_000_000, 6_000_000)).toMatch(/: about 3 minutes$/)
  expect(startOf(0, 720_000_000)).toMatch(/: about 4 hours$/)
})

it('the progress of an audit is told every five seconds, by what was read until then', () => {
  const { lines, clock, onRead } = said({ entries: 1_000, rows: 3_000 })
  clock.ms = 4_999
  onRead({ entries: 100, rows: 0 })
  expect(lines).toHaveLength(1)
  clock.ms = 100_000
  onRead({ entries: 100, rows: 800 })
  onRead({ entries: 0, rows: 1 })
  expect(lines.slice(1)).toEqual(['25 % read, about 5 minutes left'])
  clock.ms = 200_000
  onRead({ entries: 9_000, rows: 9_000 })
  expect(lines.at(-1)).toBe('100 % read, less than a minute left')
})
