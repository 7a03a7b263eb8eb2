import { expect, it } from 'vitest'
import { drainedText, restText } from '../../../../services/ops/drain/command.ts'
import { drain, restOf, type Rest } from '../../../../services/ops/drain/drain.ts'

const place = (group: string, lag: number) =>
  ({ stage: 'settle', group, topic: 't', partition: 0, offset: 0, lag }) as const
const EMPTY: Rest = { openJobs: 0, lagMessages: 0, groups: [] }
const BUSY: Rest = { openJobs: 1, lagMessages: 3, groups: ['a'] }

/** Looks that are told one after the other, the last one for ever; time goes only by sleeping. */
function parts (looks: readonly Rest[]) {
  let [nowMs, taken] = [0, 0]
  const shown: Rest[] = []
  return {
    shown,
    look: async () => looks[Math.min(taken++, looks.length - 1)] ?? EMPTY,
    show: (rest: Rest) => { shown.push(rest) },
    sleep: async (ms: number) => { nowMs += ms },
    now: () => nowMs,
  }
}

it('puts together what is left', () => {
  expect(restOf(2, [place('a', 3), place('a', 1), place('b', 0)]))
    .toEqual({ openJobs: 2, lagMessages: 4, groups: ['a'] })
})

it('is done when two looks in a row see nothing', async () => {
  const own = parts([BUSY, EMPTY, BUSY, EMPTY])
  expect(await drain(own, 60_000)).toEqual({ drained: true, seconds: 2, ...EMPTY })
  expect(own.shown).toEqual([BUSY, EMPTY, BUSY, EMPTY, EMPTY])
})

it('gives up in time and says what is left', async () => {
  expect(await drain(parts([BUSY]), 1_000)).toEqual({ drained: false, seconds: 1, ...BUSY })
})

it('is told in a line', () => {
  expect(drainedText({ drained: true, seconds: 2, ...EMPTY })).toBe('Nothing is left, after 2 s.')
  expect(drainedText({ drained: false, seconds: 9, ...BUSY }))
    .toMatch(/^After 9 s: 1 job open, 3 messages wait \(a\)\. /)
  expect(restText({ openJobs: 0, lagMessages: 5, groups: ['a', 'b', 'c', 'd', 'e'] }))
    .toBe('0 jobs open, 5 messages wait (a, b, c, and 2 more)')
})
