import type { Journal } from '../../schemas/types.ts'
import type { Job } from '../jobs/job.ts'
import { recordOf } from '../jobs/job-record.ts'
import type { EndedEntries } from './journal-fold.ts'

/** A job as it is written to Redis where nothing of it is left. */
export type Rebuilt = {
  readonly tenant: string
  readonly job: string
  readonly nowMs: number
  /** Empty when the request had none, or it is not bound any more. */
  readonly idempotencyKey: string
  readonly fingerprint: string
  readonly claimedAt: string
  /** `cursor` is empty when it is no job of a feed. */
  readonly feed: {
    readonly partner: string
    readonly partition: number
    readonly cursor: string
    readonly to: string
  }
  /** The entry by which its money has moved for the last time, if it has. */
  readonly settled: { readonly seq: number, readonly chargeMicros: number } | undefined
  readonly isClosed: boolean
  /** Fields and values of the record, in turn. */
  readonly fields: readonly string[]
}

/** What a reserve entry says of its job: all values are text, as accept.lua writes them. */
type Terms = Readonly<Record<string, string>>

/** Named by the record itself or by its idempotency key, and no field of it. */
const NO_FIELDS: ReadonlySet<string> = new Set([
  'fingerprint', 'claimedAt', 'cursor', 'cursorTo',
])

const KEY_BOUND_MS = 86_400_000

/** Whether a reserve entry says enough to make its job anew. */
export function hasTerms ({ reason }: Pick<Journal, 'reason'>): boolean {
  return reason.startsWith('{')
}

/**
 * An open job from its reserve entry; `settled` when the journal has its end as well. From any
 * other entry it has no record, and can only change the one that Redis has.
 */
export function openJobOf (entry: Journal, nowMs: number, settled?: Journal): Rebuilt {
  const terms = termsOf(entry)
  return {
    ...bindingOf(entry, { terms, nowMs }),
    settled: settled && { seq: settled.seq, chargeMicros: settled.chargeMicros },
    isClosed: false,
    fields: hasTerms(entry)
      ? [...openRecordOf(entry, terms), ...Object.entries(terms)
          .filter(([name]) => !NO_FIELDS.has(name)).flat()]
      : [],
  }
}

/** A closed job, as the archive has it, for whoever sends its key again or asks for it. */
export function closedJobOf (
  job: Job,
  { reserve, end, nowMs }: EndedEntries & { readonly nowMs: number }
): Rebuilt {
  const terms = reserve === undefined ? {} : termsOf(reserve)
  const state = { announced: true, rebuilt: false, ended: true, closed: true }
  return {
    ...bindingOf(end, { terms, nowMs }),
    settled: { seq: end.seq, chargeMicros: end.chargeMicros },
    isClosed: true,
    fields: [...recordOf({ ...job, ...state }), 'settleSeq', String(end.seq)],
  }
}

function termsOf (entry: Journal): Terms {
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
 * The fields `accept` begins with. Whether all its parts were produced is not known: if they were
 * not, `lookup` still has its chunks and announces it.
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
    'idempotencyKey', terms['idempotencyKey'] ?? '',
    ...numbers.flatMap(name => [name, '0']),
    'rebuilt', '1',
  ]
}
