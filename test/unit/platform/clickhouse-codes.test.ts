import { describe, expect, it } from 'vitest'
import { isStoreFailure } from '../../../services/platform/clickhouse-codes.ts'

describe('a code of ClickHouse', () => {
  it.each(['33', '60', '159', '241', '243', '252', '1001', '9999'])(
    '%s says that the store has to be mended or waited for', code => {
      expect(isStoreFailure(code)).toBe(true)
    })

  it.each(['27', '47', '53', '62', '117', '469'])('%s blames the statement', code => {
    expect(isStoreFailure(code)).toBe(false)
  })

  it.each(['', 'ECONNREFUSED', '24x1', '-1'])('is a number, and %j is none', code => {
    expect(isStoreFailure(code)).toBe(false)
  })
})
