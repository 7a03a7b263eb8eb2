import type { KeyObject } from 'node:crypto'
import type { KeyLookup } from '../accounts/api-keys.ts'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import type { Submission, Submitted } from '../jobs/submit.ts'
import type { JobHeader } from '../jobs/wire.ts'
import type { WebhookRules } from './webhook-url.ts'

/** What the routes need of the rest of the product; doubles stand in for it in tests. */
export type Parts = {
  readonly findKey: (secret: string) => Promise<KeyLookup>
  readonly submit: (submission: Submission) => Promise<Submitted>
  /** Keeps the first body given for a key and returns the one kept. */
  readonly rememberResponse: (tenant: string, key: string, body: string) => Promise<string>
  /** A job that runs or ended lately. */
  readonly readJob: (tenant: string, job: string) => Promise<Job | undefined>
  /** A closed job, for as long as results are kept. */
  readonly findArchived: (
    tenant: string, job: string,
  ) => Promise<{ readonly job: Job, readonly manifest: readonly ManifestEntry[] } | undefined>
  readonly openHeader: (job: Job) => Promise<JobHeader>
  /** The result file; every block is checked to exist before the first piece comes. */
  readonly csvStream: (
    job: Job, manifest: readonly ManifestEntry[], options: { readonly safe: boolean },
  ) => AsyncIterable<string>
  /** Broken infrastructure, which heals, rather than a fault of this program. */
  readonly isInfrastructure: (error: unknown) => boolean
  readonly ready: () => boolean
  readonly now: () => number
}

/** What an installation decides about the interface. */
export type Rules = {
  readonly configuredServices: ReadonlySet<string>
  readonly webhooks: WebhookRules
  /** Addresses or networks whose X-Forwarded-Proto is believed. */
  readonly trustedProxies: readonly string[]
  readonly fingerprintKey: KeyObject
  readonly bodyBudgetBytes: number
  readonly retentionMs: number
}
