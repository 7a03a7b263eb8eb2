import type { Partner } from '../accounts/partners.ts'
import type { Submission, Submitted, Submitter } from '../jobs/submit.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { JobOutcome, JobRequest } from './cursor.ts'

export type SubmitParts = {
  readonly submitter: Pick<Submitter, 'submit'>
  readonly metrics: Pick<Metrics, 'count'>
  /** Told of a request whose outcome nobody knows, for logs. */
  readonly onLost: (error: unknown) => void
}

/** Where contacts came from; tenant, mode and prices are those of the registration. */
export type Source = {
  readonly partner: Pick<Partner, 'name' | 'tenant' | 'mode' | 'pricesMicros'>
  readonly partition: number
}

/** Asks for a job of a partner's contacts, in the same way as the REST interface does. */
export async function submitContacts (
  { submitter, metrics, onLost }: SubmitParts, source: Source, request: JobRequest
): Promise<JobOutcome> {
  const outcome = await submitter.submit(submissionOf(source, request)).then(outcomeOf, error => {
    onLost(error)
    return { kind: 'lost' } as const
  })
  metrics.count('feed_jobs_total', { outcome: outcome.kind })
  return outcome
}

/** The submission of a request; a partner without a price of its own pays the list's. */
export function submissionOf (
  { partner, partition }: Source, { cursor, terms, from, to, ...contacts }: JobRequest
): Submission {
  const { name, tenant, mode, pricesMicros } = partner
  const { service, country, forceFresh } = terms
  const price = mode === 'test' ? undefined : pricesMicros[service]
  const { inputs, offsets, references } = contacts
  return {
    tenant,
    service,
    inputs,
    country,
    forceFresh,
    metadata: {},
    webhookUrl: '',
    idempotencyKey: '',
    fingerprint: '',
    feed: {
      source: { partner: name, partition, cursor, from, to, unitPriceMicros: price ?? null },
      offsets,
      references,
    },
  }
}

function outcomeOf (submitted: Submitted): JobOutcome {
  if (submitted.kind === 'accepted') return { kind: 'taken' }
  if (submitted.kind === 'reused') return { kind: 'failed' }
  const { refusal } = submitted
  switch (refusal.code) {
    case 'insufficient_balance':
    case 'concurrent_jobs_limit': return { kind: 'short', shortage: refusal }
    case 'cursor_moved': return { kind: 'moved' }
    case 'expired': return { kind: 'late' }
    // People have to see to the tenant's money first: until then it is asked for, ever more rarely.
    case 'frozen': return { kind: 'lost' }
    case 'quoted':
    case 'internal': return { kind: 'failed' }
  }
}
