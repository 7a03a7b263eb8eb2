import { describe, expect, it } from 'vitest'
import { measureReplies, REPLY_SUITES } from './replies.ts'

describe('the reading of mail servers\' replies', () => {
  const rows = measureReplies()

  it.each(REPLY_SUITES)('never takes a reply of %s for a refusal that is none', suite => {
    const [row] = rows.filter(it => it.suite === suite && it.part === 'not about the mailbox')
    expect(row?.total).toBeGreaterThan(50)
    expect(row?.cases).toEqual([])
  })

  it.each(REPLY_SUITES)('finds the refusals and full mailboxes of %s', suite => {
    const about = rows.filter(it => it.suite === suite && it.part !== 'not about the mailbox')
    const sum = (key: 'total' | 'right') => about.reduce((all, row) => all + row[key], 0)
    expect(sum('right') / sum('total')).toBeGreaterThanOrEqual(0.97)
  })
})
