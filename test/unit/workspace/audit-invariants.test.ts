import { globSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  INVARIANTS, invariantOf, invariantsText,
} from '../../../services/workspace/audit-invariants.ts'

const root = `${import.meta.dirname}/../../..`

describe('the invariants', () => {
  it('are numbered, and each says how the checks name it, by no name twice', () => {
    expect(INVARIANTS.map(({ id }) => id))
      .toEqual(Array.from({ length: 12 }, (_, index) => `I${index + 1}`))
    const laws = INVARIANTS.flatMap(({ laws }) => laws)
    expect(new Set(laws).size).toBe(laws.length)
    expect(INVARIANTS.filter(({ laws }) => laws.length === 0)).toEqual([])
  })

  it('have all laws that some check looks at, and no other', () => {
    const checked = globSync('services/workspace/audit*.ts', { cwd: root })
      .flatMap(path => [...readFileSync(`${root}/${path}`, 'utf8').matchAll(/law: '([^']+)'/g)])
      .map(([, law]) => law!)
    expect([...new Set(checked)].toSorted())
      .toEqual(INVARIANTS.flatMap(({ laws }) => laws).toSorted())
  })

  it('are found by a law', () => {
    expect(invariantOf('no amount is below zero')).toBe('I2')
    expect(invariantOf('charge = billable rows x unit price')).toBe('I6')
    expect(invariantOf('no law of ours')).toBe('-')
  })

  it('are told in a line each', () => {
    const lines = invariantsText().split('\n')
    expect(lines.slice(0, 4)).toEqual([
      '',
      'What is checked:',
      '  I1   What is available, reserved and charged adds up to what was funded.',
      '  I2   No amount is below zero.',
    ])
    expect(lines).toHaveLength(14)
    expect(lines.at(-2)).toBe(
      '  I11  Slots are held by exactly the jobs that run and have fresh rows.')
  })
})
