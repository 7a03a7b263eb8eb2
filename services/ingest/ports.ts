import type { KeyLookup } from '../accounts/api-keys.ts'
import type { Job, ManifestEntry } from '../jobs/job.ts'
import type { Cancelled } from '../jobs/store.ts'
import type { Quoted, Submission, Submitted } from '../jobs/submit.ts'
import type { Limiter } from './limits/limiter.ts'
import type { Balance } from '../money/wallet.ts'
import type { ListOptions } from '../results/archive.ts'
import type { Page, PageOptions, Rows } from '../results/results.ts'
import type { Webhooks } from './webhooks.ts'

/** What the routes need of the rest of the product; doubles stand in for it in tests. */
export type Deps = Webhooks & {
  readonly findKey: (secret: string) => Promise<KeyLookup>
  readonly limiter: Pick<Limiter, 'admit' | 'levels'>
  readonly submit: (submission: Submission) => Promise<Submitted>
  /** What a job would be quoted; nothing is reserved and no job comes of it. */
  readonly quote: (submission: Submission) => Promise<Quoted>
  /** A job that runs or ended lately. */
  readonly readJob: (tenant: string, job: string) => Promise<Job | undefined>
  /** Every job of the tenant that is not closed, in no order. */
  readonly openJobs: (tenant: string) => Promise<readonly Job[]>
  /** Asks a job that runs to end early. */
  readonly cancel: (tenant: string, job: string) => Promise<Cancelled>
  readonly balance: (tenant: string) => Promise<Balance>
  /** Closed jobs, newest first. */
  readonly listArchived: (tenant: string, options: ListOptions) => Promise<readonly Job[]>
  /** A closed job, for as long as results are kept. */
  readonly findArchived: (
    tenant: string, job: string,
  ) => Promise<{ readonly job: Job, readonly manifest: readonly ManifestEntry[] } | undefined>
  /** True for a job that was erased on demand: nothing that was sealed for it can be read. */
  readonly isErased: (tenant: string, job: string) => Promise<boolean>
  /** The result file; every block is checked to exist before the first piece comes. */
  readonly csvStream: (
    job: Job, manifest: readonly ManifestEntry[], options: { readonly safe: boolean },
  ) => AsyncIterable<string | Uint8Array>
  /** The rows of the result file, some at a time. */
  readonly rows: (job: Job, manifest: readonly ManifestEntry[]) => AsyncIterable<Rows>
  /** Some of those rows. */
  readonly page: (
    job: Job, manifest: readonly ManifestEntry[], options: PageOptions,
  ) => Promise<Page>
  /** Broken infrastructure, which heals, rather than a fault of this program. */
  readonly isInfrastructure: (error: unknown) => boolean
  readonly now: () => number
}
