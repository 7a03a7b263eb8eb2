import { describe, expect, it } from 'vitest'
import { measureReplies, REPLY_SUITES } from './replies.ts'
import type { AccuracyRow } from './row.ts'

type Counts = 'total' | 'right' | 'wrong'
const sum = (rows: readonly AccuracyRow[], key: Counts) =>
  rows.reduce((all, row) => all + row[key], 0)

describe('the reading of mail servers\' replies', () => {
  const rows = measureReplies()

  const tuned = REPLY_SUITES.filter(suite => suite !== 'smtp-unseen')

  it.each(tuned)('never takes a reply of %s for a refusal that is none', suite => {
    const [row] = rows.filter(it => it.suite === suite && it.part === 'not about the mailbox')
    expect(row?.total).toBeGreaterThan(50)
    expect(row?.cases).toEqual([])
  })

  it('takes at most one in a hundred replies that it was not made by for a refusal', () => {
    const some = rows.filter(it => it.suite === 'smtp-unseen')
    expect(sum(some, 'total')).toBeGreaterThan(250)
    expect(sum(some, 'wrong') / sum(some, 'total')).toBeLessThanOrEqual(0.01)
  })

  it.each([
    ...tuned.map(suite => ({ suite, least: 0.97 })), { suite: 'smtp-unseen', least: 0.95 },
  ])('finds the refusals and full mailboxes of $suite', ({ suite, least }) => {
    const about = rows.filter(it => it.suite === suite && it.part !== 'not about the mailbox')
    expect(sum(about, 'right') / sum(about, 'total')).toBeGreaterThanOrEqual(least)
  })
})
