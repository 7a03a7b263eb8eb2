import { describe, expect, it } from 'vitest'
import { isStoreFailure } from '../../../../services/runtime/platform/errors.ts'

describe('an error code of ClickHouse', () => {
  it.each(['33', '60', '159', '241', '243', '252', '1001', '9999'])(
    '%s is a store failure', code => {
      expect(isStoreFailure(code)).toBe(true)
    })

  it.each(['27', '47', '53', '62', '117', '469'])('%s is an error of the statement', code => {
    expect(isStoreFailure(code)).toBe(false)
  })

  it.each(['', 'ECONNREFUSED', '24x1', '-1'])('%j is not a store failure', code => {
    expect(isStoreFailure(code)).toBe(false)
  })
})
