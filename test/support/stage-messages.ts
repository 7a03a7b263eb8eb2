import { createHash } from 'node:crypto'
import type { Journal, Retry, Normalized, NormalizedRows } from '../../schemas/types.ts'
import type { Job, JobCounts } from '../../services/jobs/job.ts'
import { emptyBitmap, has, set } from '../../services/runtime/platform/bitmap.ts'
import type { RawMessage } from '../../services/runtime/kafka/bus.ts'
import type { Decision, Emission, Incoming, Stage } from '../../services/runtime/engine/stage.ts'
import type { CachedRecord } from '../../services/cache/cache.ts'
import type { StageName, TopicName } from '../../services/topology.ts'
import { type Checker, type CheckResult, NO_PROVIDER } from '../../services/verify/checker.ts'
import type { ProviderRow } from '../../services/verify/provider.ts'

export const TENANT = 'org_1.live'
export const JOB = 'job_01jaaaaaaaaaaaaaaaaaaaaaaa'
export const QUOTED_AT_MS = Date.UTC(2026, 7, 11)

/** The position and reason of a dead letter, where they make no difference. */
export const DEAD: Parameters<Stage['resolveDead']>[1] = {
  topic: '', partition: 0, offset: 0n, reason: 'undecodable',
}

/** The counts of a job none of whose rows has finished. */
export const NO_COUNTS: JobCounts = {
  finishedRows: 0,
  inputBlocks: 0,
  cacheHits: 0,
  freshRecords: 0,
  invalidRecords: 0,
  duplicateRecords: 0,
  unknownRecords: 0,
  cancelledRecords: 0,
  successRecords: 0,
  failedRecords: 0,
}

/** The settings of a `verify` that retries every minute, for 15 of them. */
export const VERIFY_SETTINGS = {
  leaseMs: 30_000,
  leasePollMs: 250,
  concurrencyOf: () => 2,
  batch: 8,
  retryDelayMs: 60_000,
  retryForMs: 900_000,
  hostRetryForMs: 21_600_000,
}

/** Limits of providers that no test reaches by being slow. */
export const PROVIDER_LIMITS = {
  timeoutMs: 300_000,
  attemptTimeoutMs: Infinity,
  concurrency: 4,
  retries: 0,
  breaker: { failingShare: 0.5, sampledMs: 30_000, openMs: 60_000 },
}

/** A checker of rows by a function. */
export const checkerBy = (check: Checker['check'], isOffline = false) =>
  ({ check, isOffline: () => isOffline, takesBatches: () => false })

/** The result of a check while no provider is available. */
export function downFor (rows: readonly ProviderRow[]): CheckResult {
  return { verdicts: new Map(), open: new Map(rows.map(({ row }) => [row, NO_PROVIDER])) }
}

/** A clock that is stopped until it is moved; `sleep` moves it instead of waiting. */
export function createManualClock (startMs = QUOTED_AT_MS) {
  let nowMs = startMs
  return {
    now: () => nowMs,
    advance: (ms: number) => { nowMs += ms },
    sleep: async (ms: number) => { nowMs += ms },
  }
}

/** An accepted job, for stages that find it already there. */
export function acceptedJob (): Job {
  return {
    id: JOB,
    tenant: TENANT,
    service: 'phone-validation',
    lane: 'small',
    preflight: {
      totalRows: 1,
      invalidRows: 0,
      duplicateRows: 0,
      cacheHits: 0,
      freshChecks: 1,
      maxQuoteMicros: 10,
      quoteId: 'quot_1',
    },
    unitPriceMicros: 10,
    chunks: 1,
    forceFresh: false,
    header: Buffer.alloc(0),
    createdAtMs: QUOTED_AT_MS,
    status: 'queued',
    updatedAtMs: QUOTED_AT_MS,
    announced: false,
    rebuilt: false,
    ended: false,
    closed: false,
    endedAtMs: 0,
    counts: NO_COUNTS,
    verdicts: {},
    chargedMicros: 0,
    releasedMicros: 0,
  }
}

export function entryOf (tenant: string, job: Job): Journal {
  const amountMicros = job.preflight.maxQuoteMicros
  return {
    tenant,
    seq: 7,
    entryId: `${job.id}:reserve`,
    type: 'reserve',
    job: job.id,
    amountMicros,
    chargeMicros: 0,
    availableMicros: 0,
    reservedMicros: amountMicros,
    chargedMicros: 0,
    fundedMicros: amountMicros,
    at: QUOTED_AT_MS,
    reason: '',
    header: null,
  }
}

/** A message as a stage is given it; `offset` distinguishes messages of the same content. */
export function incoming<T extends TopicName> (
  topic: T, value: Incoming<T>['value'],
  { rows, offset = 0, timestampMs = QUOTED_AT_MS }:
  { rows: Incoming<T>['rows'], offset?: number, timestampMs?: number }
): Incoming<T> {
  const raw: RawMessage = {
    topic,
    partition: 0,
    offset: BigInt(offset),
    key: Buffer.from('key'),
    value: Buffer.alloc(0),
    headers: {},
    timestampMs,
  }
  return { topic, value, rows, raw }
}

/** What the next stage receives of an emission. */
export function delivered<T extends TopicName> (emission: Emission<T>, offset = 0): Incoming<T> {
  const value = { ...emission.value, rowsSchema: 1, sealed: Buffer.alloc(0) }
  return incoming(emission.topic, value as unknown as Incoming<T>['value'],
    { rows: (() => emission.rows) as Incoming<T>['rows'], offset })
}

/** The emissions of one topic, with the types of that topic. */
export function emitted<T extends TopicName> (
  decisions: readonly object[], topic: T
): Emission<T>[] {
  return decisions.flatMap((it) => 'emits' in it ? (it as Decision<StageName>).emits : [])
    .filter((emission) => emission.topic === topic) as unknown as Emission<T>[]
}

/** A token that represents a contact: equal texts have equal tokens, spread as real ones are. */
export function tokenFor (canonical: string): Buffer {
  if (canonical === '') return Buffer.alloc(16)
  return createHash('sha256').update(canonical).digest().subarray(0, 16)
}

/** Normalized chunks of a job whose canonical forms are given; '' is an invalid row. */
export function chunksOf (
  canonicals: readonly string[],
  { chunkRows = 1_000, ...change }: Partial<Normalized> & { chunkRows?: number } = {}
): Incoming<'rows.normalized'>[] {
  const chunks = Math.ceil(canonicals.length / chunkRows)
  return Array.from({ length: chunks }, (_, chunk) => {
    const own = canonicals.slice(chunk * chunkRows, (chunk + 1) * chunkRows)
    const value: Normalized = {
      tenant: TENANT,
      job: JOB,
      service: 'phone-validation',
      chunk,
      chunks,
      firstRow: chunk * chunkRows,
      rows: own.length,
      totalRows: canonicals.length,
      submittedAt: QUOTED_AT_MS,
      acceptBy: QUOTED_AT_MS + 25_000,
      forceFresh: false,
      sample: false,
      tokenVersion: '1',
      idempotencyKey: '',
      header: chunk === 0 ? Buffer.from('header') : null,
      rowsSchema: 1,
      sealed: Buffer.alloc(0),
      ...change,
    }
    return incoming('rows.normalized', value, { rows: () => normalizedRows(own), offset: chunk })
  })
}

function normalizedRows (canonicals: readonly string[]): NormalizedRows {
  return {
    inputs: canonicals.map((canonical) => canonical === '' ? 'nonsense' : ` ${canonical}`),
    canonicals,
    reasons: canonicals.map((canonical) => canonical === '' ? 'not_a_phone_number' : ''),
    tokens: Buffer.concat(canonicals.map(tokenFor)),
  }
}

/** A verification batch of one chunk, rows 0, 1, 2 ... with these canonical forms. */
export function batchOf (
  canonicals: readonly string[],
  { duplicates, ...change }: Partial<Retry> & { duplicates?: readonly number[] } = {}
): Incoming<'rows.to-verify'> {
  const value: Retry = {
    tenant: TENANT,
    job: JOB,
    service: 'phone-validation',
    chunk: 0,
    batch: 0,
    chunks: 1,
    firstRow: 0,
    rows: canonicals.length,
    totalRows: canonicals.length,
    quotedAt: QUOTED_AT_MS,
    forceFresh: false,
    tokenVersion: '1',
    freshnessMs: 86_400_000,
    attempt: 0,
    notBefore: 0,
    retryDeadline: 0,
    rowsSchema: 1,
    sealed: Buffer.alloc(0),
    ...change,
  }
  const rows = {
    rows: canonicals.map((_, row) => row),
    duplicates: duplicates ?? canonicals.map(() => 0),
    canonicals,
    tokens: Buffer.concat(canonicals.map(tokenFor)),
  }
  return incoming('rows.to-verify', value, { rows: () => rows })
}

/** A record another job paid for, checked an hour before the quote. */
export function cachedRecord (change: Partial<CachedRecord> = {}): CachedRecord {
  return {
    status: 'valid',
    reason: 'assigned_range',
    confidence: 90,
    fields: { line_type: 'mobile', carrier: 'Acme' },
    checkedAtMs: QUOTED_AT_MS - 3_600_000,
    job: 'job_other',
    ...change,
  }
}

export function rowsOf (bitmap: Buffer): number[] {
  const bits = Array.from({ length: bitmap.length * 8 }, (_, row) => row)
  return bits.filter((row) => has(bitmap, row))
}

export function bitmapOf (rows: number, members: readonly number[]): Buffer {
  const bitmap = emptyBitmap(rows)
  for (const row of members) set(bitmap, row)
  return bitmap
}
