import { readFileSync } from 'node:fs'
import type { ReferenceDataBody } from '../../schemas/api/services.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { ListName, ListsManifest } from './lists-folder.ts'

/** Published data that verdicts rest on: a list, or a set of number ranges. */
export type ReferenceData = {
  readonly name: string
  /** The kind of contact that it is about. */
  readonly inputKind: 'phone' | 'email'
  readonly version: string
  /** Day of its publication: 2026-11-06. */
  readonly publishedAt: string
}

const DAY_MS = 86_400_000

/** The data of this release; `npm run phones` renews those of phones. */
const referenceData: readonly ReferenceData[] =
  JSON.parse(readFileSync(new URL('reference-data.json', import.meta.url), 'utf8'))

/** What a list of LISTS_DIR is called, and which data of the release it replaces. */
const LISTS: Readonly<Record<ListName, readonly [name: string, ...replaced: string[]]>> = {
  disposable: ['disposable_domains', 'observed_disposable_domains'],
  free: ['free_mail_domains'],
  roles: ['role_words'],
  allowed: ['allowed_domains'],
}

/** The data in use: those of this release, and the lists of LISTS_DIR with its manifest. */
function referenceDataInUse (manifest?: ListsManifest): readonly ReferenceData[] {
  const lists = Object.entries(manifest?.lists ?? {}).map(([list, { mode, ...release }]) => {
    const [name, ...further] = LISTS[list as ListName]
    return mode === 'replace'
      ? { ...release, name, replaced: [name, ...further] }
      : { ...release, name: list === 'allowed' ? name : `added_${name}`, replaced: [] }
  })
  const replaced = new Set(lists.flatMap(list => list.replaced))
  return [
    ...referenceData.filter(({ name }) => !replaced.has(name)),
    ...lists.map(({ name, version, publishedAt }) =>
      ({ name, inputKind: 'email' as const, version, publishedAt })),
  ]
}

/** The data about a kind of contact as the API shows them, with their age at `nowMs`. */
export function referenceDataFor (
  inputKind: ReferenceData['inputKind'], nowMs: number, manifest?: ListsManifest
): ReferenceDataBody[] {
  return referenceDataInUse(manifest).filter(data => data.inputKind === inputKind)
    .map(({ name, version, publishedAt }) => {
      const ageDays = Math.max(0, Math.floor((nowMs - Date.parse(publishedAt)) / DAY_MS))
      return { name, version, publishedAt, ageDays }
    })
}

/**
 * Reports the age of all data in use whenever metrics are scraped, and that of the folder itself as
 * `lists_folder` if it replaces a list: what it only adds does not grow old.
 */
export function watchReferenceData (
  metrics: Pick<Metrics, 'watchAll'>, manifestOf: () => ListsManifest | undefined
): void {
  metrics.watchAll('reference_data_age_seconds', async () => {
    const manifest = manifestOf()
    const replaces = Object.values(manifest?.lists ?? {}).some(({ mode }) => mode === 'replace')
    return [
      ...referenceDataInUse(manifest),
      ...(manifest !== undefined && replaces
        ? [{ name: 'lists_folder', publishedAt: manifest.renewedAt }]
        : []),
    ].map(({ name, publishedAt }) => ({
      labels: { data: name },
      value: Math.max(0, (Date.now() - Date.parse(publishedAt)) / 1_000),
    }))
  })
}
