import { readFileSync } from 'node:fs'
import type { ReferenceDataBody } from '../../schemas/api/services.ts'
import type { Metrics } from '../platform/metrics.ts'

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
export const referenceData: readonly ReferenceData[] =
  JSON.parse(readFileSync(new URL('reference-data.json', import.meta.url), 'utf8'))

/** The data about a kind of contact as the API shows them, with their age at `nowMs`. */
export function referenceDataFor (
  inputKind: ReferenceData['inputKind'], nowMs: number
): ReferenceDataBody[] {
  return referenceData.filter(data => data.inputKind === inputKind)
    .map(({ name, version, publishedAt }) => {
      const ageDays = Math.max(0, Math.floor((nowMs - Date.parse(publishedAt)) / DAY_MS))
      return { name, version, publishedAt, ageDays }
    })
}

/** Reports the age of all data whenever metrics are scraped. */
export function watchReferenceData (metrics: Pick<Metrics, 'watch'>): void {
  for (const { name, publishedAt } of referenceData) {
    metrics.watch('reference_data_age_seconds', { data: name },
      () => (Date.now() - Date.parse(publishedAt)) / 1_000)
  }
}
