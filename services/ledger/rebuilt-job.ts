import type { Journal } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import { recordOf } from '../jobs/job-record.ts'
import type { EndedEntries } from './journal-state.ts'

/** A job as `rebuild.lua` writes it to Redis. */
export type RebuiltJob = {
  readonly tenant: string
  readonly job: string
  readonly nowMs: number
  /** Empty when the request had none, or it has expired. */
  readonly idempotencyKey: string
  readonly fingerprint: string
  readonly claimedAt: string
  /** `cursor` is empty unless the job is of a feed. */
  readonly feed: {
    readonly partner: string
    readonly partition: number
    readonly cursor: string
    readonly to: string
  }
  /** The entry that settled the job, if any. */
  readonly settled: { readonly seq: number, readonly chargeMicros: number } | undefined
  readonly isClosed: boolean
  /** Fields and values of the record, alternating. */
  readonly fields: readonly string[]
}

/**
 * The description of a job in its reserve entry; all values are text, as accept.lua writes them.
 */
type Terms = Readonly<Record<string, string>>

/** Terms that are not fields of the record. */
const NON_RECORD_TERMS: ReadonlySet<string> = new Set([
  'fingerprint', 'claimedAt', 'cursor', 'cursorTo',
])

const KEY_BOUND_MS = 86_400_000

/** Whether an entry contains the terms to rebuild its job. */
export function hasTerms ({ reason }: Pick<Journal, 'reason'>): boolean {
  return reason.startsWith('{')
}

/**
 * An open job from its reserve entry; `settled` is its end in the journal, if any. From an entry
 * without terms it has no record, and only updates an existing one.
 */
export function openJobOf (entry: Journal, nowMs: number, settled?: Journal): RebuiltJob {
  const terms = termsOf(entry)
  return {
    ...bindingOf(entry, { terms, nowMs }),
    settled: settled && { seq: settled.seq, chargeMicros: settled.chargeMicros },
    isClosed: false,
    fields: hasTerms(entry)
      ? [...openRecordOf(entry, terms), ...Object.entries(terms)
          .filter(([name]) => !NON_RECORD_TERMS.has(name)).flat()]
      : [],
  }
}

/** A closed job from the archive, for repeated requests and queries. */
export function closedJobOf (
  job: Job,
  { reserve, end, nowMs }: EndedEntries & { readonly nowMs: number }
): RebuiltJob {
  const terms = reserve === undefined ? {} : termsOf(reserve)
  const state = { announced: true, rebuilt: false, ended: true, closed: true }
  return {
    ...bindingOf(end, { terms, nowMs }),
    settled: { seq: end.seq, chargeMicros: end.chargeMicros },
    isClosed: true,
    fields: [...recordOf({ ...job, ...state }), 'settleSeq', String(end.seq)],
  }
}

/** The terms of a reserve entry; none in an entry that an operator or a top-up made. */
export function termsOf (entry: Journal): Terms {
  return hasTerms(entry) ? JSON.parse(entry.reason) as Terms : {}
}

function bindingOf (
  { tenant, job }: Journal, { terms, nowMs }: { readonly terms: Terms, readonly nowMs: number }
) {
  const isBound = nowMs < Number(terms['claimedAt']) + KEY_BOUND_MS
  const [partner = '', partition = '-1'] = terms['feed']?.split(':') ?? []
  return {
    tenant,
    job,
    nowMs,
    idempotencyKey: isBound ? terms['idempotencyKey'] ?? '' : '',
    fingerprint: terms['fingerprint'] ?? '',
    claimedAt: terms['claimedAt'] ?? '',
    feed: {
      partner,
      partition: Number(partition),
      cursor: terms['cursor'] ?? '',
      to: terms['cursorTo'] ?? '',
    },
  }
}

/**
 * The initial fields of `accept`. Whether all its batches were produced is unknown: if not,
 * `lookup` still has its chunks and announces it.
 */
function openRecordOf (reserve: Journal, terms: Terms): readonly string[] {
  const numbers = [
    'endedAtMs', 'finishedRows', 'inputBlocks', 'cacheHits', 'freshRecords', 'invalidRecords',
    'duplicateRecords', 'unknownRecords', 'cancelledRecords', 'successRecords',
    'failedRecords', 'chargedMicros', 'releasedMicros', 'announced', 'ended', 'closed',
  ]
  return [
    'id', reserve.job,
    'status', 'verifying',
    'maxQuoteMicros', String(reserve.amountMicros),
    'header', reserve.header?.toString('base64') ?? '',
    'updatedAtMs', String(reserve.at),
    'reserveSeq', String(reserve.seq),
    'availableMicros', String(reserve.availableMicros),
    'idempotencyKey', terms['idempotencyKey'] ?? '',
    ...numbers.flatMap(name => [name, '0']),
    'rebuilt', '1',
  ]
}
