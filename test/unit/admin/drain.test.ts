import { expect, it } from 'vitest'
import {
  joinBacklog, backlogText, drain, drainedText, type RemainingWork,
} from '../../../services/admin/drain.ts'

const groupLag = (group: string, lag: number) =>
  ({ stage: 'settle', group, topic: 't', partition: 0, offset: 0, lag }) as const
const EMPTY: RemainingWork = { openJobs: 0, lagMessages: 0, groups: [] }
const BUSY: RemainingWork = { openJobs: 1, lagMessages: 3, groups: ['a'] }

/** Returns these backlogs in order, the last one repeatedly. Only sleeping advances the clock. */
function depsWith (backlogs: readonly RemainingWork[]) {
  let [nowMs, taken] = [0, 0]
  const reported: RemainingWork[] = []
  return {
    reported,
    query: async () => backlogs[Math.min(taken++, backlogs.length - 1)] ?? EMPTY,
    show: (backlog: RemainingWork) => { reported.push(backlog) },
    sleep: async (ms: number) => { nowMs += ms },
    now: () => nowMs,
  }
}

it('the backlog of drain combines open jobs and lag', () => {
  expect(joinBacklog(2, [groupLag('a', 3), groupLag('a', 1), groupLag('b', 0)]))
    .toEqual({ openJobs: 2, lagMessages: 4, groups: ['a'] })
})

it('drain ends after two empty queries in a row', async () => {
  const deps = depsWith([BUSY, EMPTY, BUSY, EMPTY])
  expect(await drain(deps, 60_000)).toEqual({ drained: true, seconds: 2, ...EMPTY })
  expect(deps.reported).toEqual([BUSY, EMPTY, BUSY, EMPTY, EMPTY])
})

it('drain returns the backlog after its time limit', async () => {
  expect(await drain(depsWith([BUSY]), 1_000)).toEqual({ drained: false, seconds: 1, ...BUSY })
})

it('drain formats its result as a line', () => {
  expect(drainedText({ drained: true, seconds: 2, ...EMPTY })).toBe('Drained after 2 s.')
  expect(drainedText({ drained: false, seconds: 9, ...BUSY }))
    .toMatch(/^Not drained after 9 s: 1 job open, lag of 3 messages \(a\)\. /)
  expect(backlogText({ openJobs: 0, lagMessages: 5, groups: ['a', 'b', 'c', 'd', 'e'] }))
    .toBe('0 jobs open, lag of 5 messages (a, b, c, and 2 more)')
})
