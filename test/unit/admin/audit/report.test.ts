import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { ACCESS_RULES } from '../../../../services/accounts/access-log/walk.ts'
import {
  findInvariant, INVARIANTS, invariantsText,
} from '../../../../services/admin/audit/report.ts'

const root = `${import.meta.dirname}/../../../..`

describe('the invariants of the audit', () => {
  it('are numbered, and each has rules that no other has', () => {
    expect(INVARIANTS.map(({ id }) => id))
      .toEqual(Array.from({ length: 13 }, (_, index) => `I${index + 1}`))
    const rules = INVARIANTS.flatMap(({ rules }) => rules)
    expect(new Set(rules).size).toBe(rules.length)
    expect(INVARIANTS.filter(({ rules }) => rules.length === 0)).toEqual([])
  })

  it('contain exactly the rules of the checks', () => {
    const checked = globSync('services/admin/audit/*.ts', { cwd: root })
      .flatMap(path => [...readFileSync(`${root}/${path}`, 'utf8').matchAll(/rule: '([^']+)'/g)])
      .map(([, rule]) => rule!)
    expect([...new Set([...checked, ...Object.values(ACCESS_RULES)])].toSorted())
      .toEqual(INVARIANTS.flatMap(({ rules }) => rules).toSorted())
  })

  it('are found by a rule', () => {
    expect(findInvariant('no amount is below zero')).toBe('I2')
    expect(findInvariant('charge = billable rows x unit price')).toBe('I6')
    expect(findInvariant('an unknown rule')).toBe('-')
  })

  it('are printed as one line each', () => {
    const lines = invariantsText().split('\n')
    expect(lines.slice(0, 4)).toEqual([
      '',
      'Invariants:',
      '  I1   The available, reserved and charged amounts add up to the funded amount.',
      '  I2   No amount is below zero.',
    ])
    expect(lines).toHaveLength(15)
    expect(lines.at(-3)).toBe(
      '  I11  Exactly the running jobs with fresh rows hold a slot.')
  })
})
