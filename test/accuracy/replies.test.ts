import { describe, expect, it } from 'vitest'
import { loadReplies, measureReplies, REPLY_SUITES } from './replies.ts'

describe('the reading of mail servers\' replies', () => {
  it.each(REPLY_SUITES)('never takes a reply of %s for a refusal that is none', (suite) => {
    const { cases, total } = measureReplies(suite, loadReplies(suite))
    expect(total).toBeGreaterThan(150)
    expect(cases.filter(({ got }) => got !== 'not_about_the_mailbox')).toEqual([])
  })

  it.each(REPLY_SUITES)('finds the refusals and full mailboxes of %s', (suite) => {
    const { total, unknown, matrix } = measureReplies(suite, loadReplies(suite))
    const notAbout = Object.values(matrix.not_about_the_mailbox).reduce((sum, n) => sum + n, 0)
    expect(1 - unknown / (total - notAbout)).toBeGreaterThanOrEqual(0.97)
  })
})
