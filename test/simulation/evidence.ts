import type { VerificationBody } from '../../schemas/api/verifications.ts'
import type { Journal } from '../../schemas/types.ts'
import type { Cancelling } from './cancels.ts'
import type { Followed, Requested } from './clients.ts'
import type { Funded } from './inputs.ts'
import type { LossKind } from './state-loss.ts'
import type { Pipeline } from './pipeline.ts'
import type { SubmitOutcome } from '../../services/jobs/submit.ts'

export type Sent = {
  readonly tenant: string
  readonly inputs: readonly string[]
  readonly forceFresh: boolean
  /** Those that the job chose. */
  readonly options: readonly string[]
  readonly outcome: SubmitOutcome
  /** Redis was lost meanwhile. */
  readonly isOutage: boolean
  /** The rows of a client that waited for them, as it got them. */
  readonly verified: VerificationBody | undefined
  /** The rows of a client that read them while the job ran. */
  readonly followed: Followed | undefined
}

/** What a run did, for the oracle. */
export type Evidence = {
  readonly seed: number
  readonly pipeline: Pipeline
  readonly tenants: readonly string[]
  readonly sent: readonly Sent[]
  readonly funded: readonly Funded[]
  readonly losses: readonly LossKind[]
  readonly deaths: number
  readonly salvaged: readonly Journal[]
  readonly cancels: Cancelling['byJob']
  /** Messages that were sent more than once in a run without faults. */
  readonly repeats: readonly string[]
}

/** A finished scenario; the outcomes of its requests are known after the takeover. */
export type ScenarioOutput = Omit<Evidence, 'sent'> & { readonly requested: readonly Requested[] }
