import type { AccessLog } from '../accounts/access-log/access-log.ts'
import type { KeyLookup } from '../accounts/api-keys.ts'
import type { ErasureRequest, Erasures, JobErasure } from '../jobs/erasures.ts'
import type { JobWaiter, Notifications } from '../jobs/job-waiter.ts'
import type { Job, ManifestEntry, Cancelled, WaitingRows } from '../jobs/job.ts'
import type { ListsManifest } from '../jobs/lists-folder.ts'
import type { Archive, ListOptions, Usage, UsageOptions } from '../jobs/results/archive.ts'
import type { ProvisionalResults } from '../jobs/results/provisional.ts'
import type { Results } from '../jobs/results/results.ts'
import type { CsvOptions } from '../jobs/results/csv.ts'
import type { EventStreams, RequestLimiter, SampleRows } from './limits/limiter.ts'
import type { LoadShedding } from './limits/preflights.ts'
import type { JobStore, JobWithManifest } from '../jobs/store.ts'
import type { Submitter } from '../jobs/submit.ts'
import type { JournalCopy } from '../money/journal.ts'
import type { Balance } from '../money/wallet.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import type { Deliveries, DeliveryHistory } from '../webhooks/deliveries.ts'
import type { ContactLists } from '../accounts/contact-lists.ts'
import type { WebhookEndpoints } from '../webhooks/endpoints.ts'
import type { JobHeader } from '../jobs/message-codec.ts'

/** The dependencies of the routes; tests replace them by doubles. */
export type IngestDeps = {
  readonly findKey: (secret: string, address: string) => Promise<KeyLookup>
  /** Those of these hashes of secrets that are of keys, valid or not; one read of Redis. */
  readonly findExistingKeys: (hashes: readonly string[]) => Promise<ReadonlySet<string>>
  readonly limiter: Pick<RequestLimiter, 'admit' | 'levels'>
  readonly loadShedding: Pick<LoadShedding, 'rejects' | 'isClaimed' | 'countRefusal'>
  readonly accessLog: AccessLog
  /**
   * Waits its turn (`queuePreflights`), is watched by load shedding, and then submits the job or
   * the quote (`createSubmitter`).
   */
  readonly submit: Submitter
  /** Whether a sample of a list may be verified, free. */
  readonly takeSample: SampleRows
  readonly metrics: Pick<Metrics, 'count'>
  /** The lists of LISTS_DIR in use; undefined without it. */
  readonly lists: () => ListsManifest | undefined
  /** A running or recently ended job. */
  readonly readRecentJob: (tenant: string, job: string) => Promise<Job | undefined>
  /** The same once it has changed, or at the end of the wait. */
  readonly waitForJob: JobWaiter['wait']
  /** The blocks of a small job that has just ended, as text; '' if they are not known. */
  readonly inlineResultsOf: Notifications['inlineResultsOf']
  /** A running or recently ended job with the blocks that are counted. */
  readonly readWithManifest: JobStore['readWithManifest']
  /** The rows that are complete, also of a running job. */
  readonly provisionalRows: ProvisionalResults['open']
  readonly eventStreams: EventStreams
  /** All open jobs of the tenant, unordered. */
  readonly openJobs: (tenant: string) => Promise<readonly Job[]>
  /** The rows of a running job that wait for their next check; undefined if none does. */
  readonly waitingRows: (tenant: string, job: string) => Promise<WaitingRows | undefined>
  /** Requests that a running job ends early. */
  readonly cancel: (tenant: string, job: string) => Promise<Cancelled>
  readonly balance: (tenant: string) => Promise<Balance>
  /** Jobs, rows and money of closed jobs by group. */
  readonly usage: (tenant: string, options: UsageOptions) => Promise<Usage>
  /** The entries of the journal, newest first. */
  readonly transactions: JournalCopy['readNewest']
  /** Closed jobs, newest first. */
  readonly listArchived: (tenant: string, options: ListOptions) => Promise<readonly Job[]>
  /** A closed job, as long as its results are kept. */
  readonly findArchived: Archive['find']
  /** The results of an ended job: from its record, or from the archive when that has expired. */
  readonly findResults: (tenant: string, job: string) => Promise<JobWithManifest | undefined>
  /** The erased ones of several jobs of the tenant, whose sealed contents are unreadable. */
  readonly findErasures: Erasures['find']
  /** Erases a closed job: from now on nobody can read its contents. */
  readonly erase: (request: ErasureRequest) => Promise<JobErasure>
  /** The result file; the existence of every block is checked before the first piece. */
  readonly csvStream: (
    job: Job, manifest: readonly ManifestEntry[], options: CsvOptions,
  ) => AsyncIterable<string | Uint8Array>
  /** Rows of the result file, in batches. */
  readonly rows: Results['rows']
  /** Labels and webhook address of a job; both empty for an erased job. */
  readonly openHeader: (job: Job) => Promise<JobHeader>
  readonly endpoints: WebhookEndpoints
  readonly contactLists: Pick<ContactLists, 'count' | 'change' | 'lookUp'>
  /** All attempts of the deliveries of a job, in order per delivery. */
  readonly listAttempts: DeliveryHistory['list']
  /** The attempts to an endpoint, those of the newest jobs first. */
  readonly listEndpointAttempts: DeliveryHistory['listOfEndpoint']
  readonly findDelivery: Deliveries['find']
  /** Sends an event again at once, unless an attempt is in progress. */
  readonly resend: Deliveries['resend']
  /** The public keys that verify the events of an organization, the newest first. */
  readonly webhookKeys: (orgId: string) => Promise<readonly string[]>
  readonly now: () => number
}
