import { describe, expect, it } from 'vitest'
import { LINE_TYPES, REASONS, ROW_STATUSES } from '../../../schemas/api/verdicts.ts'

describe('the closed lists of records', () => {
  it('are snake_case codes, each once', () => {
    for (const list of [ROW_STATUSES, REASONS, LINE_TYPES]) {
      expect(new Set(list).size).toBe(list.length)
      expect(list.filter((code) => !/^[a-z]+(_[a-z]+)*$/.test(code))).toEqual([])
    }
  })

  it('hold the published verdicts and line types', () => {
    expect(ROW_STATUSES).toEqual(['valid', 'invalid', 'risky', 'unknown'])
    expect(LINE_TYPES).toEqual([
      'mobile', 'landline', 'fixed_line_or_mobile', 'voip', 'toll_free', 'premium_rate',
      'shared_cost', 'personal_number', 'pager', 'uan', 'voicemail', 'unknown',
    ])
  })
})
