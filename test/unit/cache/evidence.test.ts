import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CHECK_OUTCOMES, CHECKS } from '../../../schemas/api/services.ts'
import {
  addedEvidence, mergeEvidence, packChecks, type MadeChecks, unpackChecks,
} from '../../../services/cache/evidence.ts'

const NAMES = Object.keys(CHECKS)
  .filter((name) => name !== 'syntax') as readonly (keyof MadeChecks)[]
const outcome = fc.constantFrom(...CHECK_OUTCOMES)
const made = fc.dictionary(fc.constantFrom(...NAMES), outcome, { noNullPrototype: true })

describe('packed evidence', () => {
  it('keeps every outcome of every check', () => {
    fc.assert(fc.property(made, (checks) => {
      const packed = packChecks(checks)
      expect(Number.isSafeInteger(packed)).toBe(true)
      expect(unpackChecks(packed)).toEqual(checks)
    }))
  })

  it('has its published numbers, which records in caches hold', () => {
    expect(packChecks({ lists: 'passed', domain: 'failed', mailbox: 'caution' })).toBe(209)
    expect(packChecks({ numbering_plan: 'passed', carrier_range: 'inconclusive' })).toBe(135_168)
    expect(packChecks({ vendor: 'passed' })).toBe(262_144)
  })

  it('leaves out checks and outcomes of later releases', () => {
    expect(unpackChecks(8 ** 9 + 7 * 8 + 1)).toEqual({ lists: 'passed' })
  })
})

describe('evidence of two providers', () => {
  it('has the checks of both, and keeps an outcome that the later one could not confirm', () => {
    const first = packChecks({ lists: 'passed', domain: 'passed' })
    const second = packChecks({ domain: 'inconclusive', lists: 'caution', vendor: 'passed' })
    expect(unpackChecks(mergeEvidence(first, second)))
      .toEqual({ lists: 'caution', domain: 'passed', vendor: 'passed' })
    expect(mergeEvidence(undefined, second)).toBe(second)
  })

  it('adds the checks that only one of them made', () => {
    const first = packChecks({ lists: 'passed', domain: 'passed' })
    expect(unpackChecks(addedEvidence(first, packChecks({ domain: 'caution' }))))
      .toEqual({ lists: 'passed' })
  })
})
