import type { Redis } from 'ioredis'
import { createHash } from 'node:crypto'
import type { Reason, RowStatus } from '../../schemas/api/verdicts.ts'
import type { AcceptRequest, TallyBlock } from '../../services/jobs/job.ts'
import { toIdempotencyField, toIdempotencyKeys } from '../../services/jobs/job-record.ts'
import type { JobStore } from '../../services/jobs/store.ts'
import { emptyBitmap, set } from '../../services/runtime/platform/bitmap.ts'

type JobClaim = Parameters<JobStore['claim']>[1]

/** A job whose rows are all fresh by default; a minute is left to accept it. */
export function acceptRequest (
  id: string,
  { freshChecks = 10, cacheHits = 0, duplicateRows = 0, invalidRows = 0, ...more }: {
    readonly freshChecks?: number
    readonly cacheHits?: number
    readonly duplicateRows?: number
    readonly invalidRows?: number
  } & Partial<AcceptRequest> = {}
): AcceptRequest {
  const unitPriceMicros = more.unitPriceMicros ?? 2_000
  return {
    id,
    service: 'phone-validation',
    lane: 'small',
    preflight: {
      totalRows: freshChecks + cacheHits + duplicateRows + invalidRows,
      invalidRows,
      duplicateRows,
      cacheHits,
      freshChecks,
      maxQuoteMicros: unitPriceMicros * (freshChecks + cacheHits),
      quoteId: `quot_of_${id}`,
    },
    unitPriceMicros,
    chunks: 1,
    forceFresh: false,
    header: Buffer.alloc(0),
    createdAtMs: Date.now(),
    idempotencyKey: '',
    acceptByMs: Date.now() + 60_000,
    maxActiveJobs: 10,
    ...more,
  }
}

/** What a block completes: indexes within its chunk. */
export type Rows = {
  readonly live?: readonly number[]
  readonly cached?: readonly number[]
  readonly invalid?: readonly number[]
  readonly unknown?: readonly number[]
  readonly cancelled?: readonly number[]
  readonly duplicates?: readonly number[]
}

type Kind = Exclude<keyof Rows, 'duplicates'>

/** Status and reason of a row that ends so. */
type VerdictOf = (kind: Kind, row: number) => readonly [status: RowStatus, reason: Reason]

const usualVerdict: VerdictOf = kind => ({
  live: ['valid', 'assigned_range'],
  cached: ['risky', 'catch_all'],
  invalid: ['invalid', 'too_short'],
  unknown: ['unknown', 'timeout'],
  cancelled: ['unknown', 'cancelled'],
} as const)[kind]

/** A block; live rows are charged. Its digest follows from its content. */
export function blockOf (
  place: Partial<Pick<TallyBlock, 'chunk' | 'firstRow' | 'inputs'>> & {
    readonly copies?: TallyBlock['duplicates']
    readonly job: string
    readonly chunkRows: number
    readonly label?: string
    readonly verdictOf?: VerdictOf
  },
  { live = [], cached = [], invalid = [], unknown = [], cancelled = [], duplicates = [] }: Rows
): TallyBlock {
  const { job, chunkRows, label = '', chunk = 0, firstRow = 0, inputs = false, copies = [] } = place
  const bits = (...lists: readonly (readonly number[])[]) => {
    const bitmap = emptyBitmap(chunkRows)
    for (const row of lists.flat()) set(bitmap, row)
    return bitmap
  }
  const ends = [live, cached, invalid, unknown, cancelled, duplicates]
  const kinds = Object.entries({ live, cached, invalid, unknown, cancelled }) as
    [Kind, readonly number[]][]
  const byVerdict = Map.groupBy(
    kinds.flatMap(([kind, list]) => list.map(row => ({ kind, row }))),
    ({ kind, row }) => (place.verdictOf ?? usualVerdict)(kind, row).join(' '))
  const verdicts = [...byVerdict].map(([verdict, list]) => {
    const [status = '', reason = ''] = verdict.split(' ')
    const rows = list.map(({ row }) => row)
    const byte = Math.min(...rows) >> 3
    return { status, reason, firstRow: 8 * byte, rows: bits(rows).subarray(byte) }
  })
  const content = JSON.stringify([label, chunk, inputs, ...ends])
  return {
    job,
    chunk,
    digest: createHash('sha256').update(content).digest('hex'),
    inputs,
    replacesLost: false,
    firstRow,
    finished: bits(...ends),
    cached: bits(cached),
    live: bits(live),
    invalid: bits(invalid),
    unknown: bits(unknown),
    cancelled: bits(cancelled),
    duplicates: copies,
    verdicts,
  }
}

/** Numbers from 0 to `length` - 1. */
export const upTo = (length: number): number[] => Array.from({ length }, (_, index) => index)

/** The claim of a request without an Idempotency-Key; a minute is left to accept its job. */
export const jobClaim = (job: string, more: Partial<JobClaim> = {}): JobClaim => ({
  job,
  idempotencyKey: '',
  fingerprint: '',
  acceptWithinMs: 60_000,
  wrappedKey: Buffer.of(1),
  ...more,
})

/** Accepts like the reader of requests: only a claimed request can become a job. */
export async function acceptClaimed (
  store: JobStore, tenant: string, request: AcceptRequest & { readonly wrappedKey?: Buffer }
): ReturnType<JobStore['accept']> {
  const { id: job, idempotencyKey, wrappedKey = Buffer.of(1) } = request
  if ((await store.outcome(tenant, job)).kind === 'open') {
    await store.claim(tenant, jobClaim(job, { idempotencyKey, wrappedKey }))
  }
  return await store.accept(tenant, request)
}

/** The job of an accept that must succeed. */
export async function accepted (store: JobStore, tenant: string, request: AcceptRequest) {
  const answer = await acceptClaimed(store, tenant, request)
  if (answer.kind === 'refused') throw new Error(`refused: ${answer.refusal.code}`)
  return answer.job
}

export type Binding = {
  /** The hash that has it, even or odd by the day of its first use. */
  readonly hash: string
  readonly endsAtMs: number
  readonly job: string
  /** In hex. */
  readonly fingerprint: string
}

/** The binding of an idempotency key, as the scripts store it. */
export async function bindingOf (
  redis: Redis, tenant: string, key: string
): Promise<Binding | undefined> {
  const found: Binding[] = []
  for (const hash of toIdempotencyKeys(tenant)) {
    const value = await redis.hgetBuffer(hash, toIdempotencyField(key))
    if (value === null) continue
    const colon = value.indexOf(':', 6)
    found.push({
      hash,
      endsAtMs: value.readUIntBE(0, 6),
      job: `job_${value.subarray(6, colon).toString()}`,
      fingerprint: value.subarray(colon + 1).toString('hex'),
    })
  }
  if (found.length > 1) throw new Error(`the key ${key} of ${tenant} is bound twice`)
  return found[0]
}

/** Moves the end of a binding, as if it had been made so much earlier or later. */
export async function moveEnd (
  redis: Redis, { hash, endsAtMs, key }: Binding & { readonly key: string }
): Promise<void> {
  const value = await redis.hgetBuffer(hash, toIdempotencyField(key))
  if (value === null) throw new Error(`${hash} has no key ${key}`)
  value.writeUIntBE(endsAtMs, 0, 6)
  await redis.hset(hash, toIdempotencyField(key), value)
}
