import { USAGE_COUNTERS } from '../../schemas/api/job.ts'
import type { Reason } from '../../schemas/api/verdicts.ts'
import type { EventType } from '../../schemas/api/webhooks.ts'
import { taggedTenant } from '../money/redis-keys.ts'
import { integer } from '../money/wallet.ts'
import type { Lane, ServiceSlug } from '../topology.ts'
import {
  type Job, type JobCounts, type JobStatus, checkLowBalance, type ManifestEntry, type Outcome,
  type Preflight, type QuoteSample, type Refusal, type VerdictCounts, type WaitingBatch,
  type WaitingRows,
} from './job.ts'
import { fullBitmap, indexes, remove } from '../runtime/platform/bitmap.ts'

/** Redis keys of a job; they share a hash tag with the wallet, so that one script can use both. */
export const jobRedisKeys = (tenant: string, job: string) => ({
  /**
   * Hash: the fields of `RECORD_FIELDS` (claim, then refusal or job); `seen:<chunk>`: bitmap of the
   * finished rows; `inputs:<chunk>`: 1 once the inputs are stored, 2 if they are blank ones in
   * place of lost ones; `block:<digest>`: the rows that a block won; `order:<digest>`: the number
   * of the block in the order of counting, `countedBlocks`: the last such number; `pace`: two times
   * with the number of rows that had an answer by then, see `waiting.lua`; `INLINE_RESULTS_FIELD`.
   */
  job: `job:${taggedTenant(tenant)}:${job}`,
  /** The wrapped data key. */
  dataKey: `dek:${taggedTenant(tenant)}:${job}`,
  /**
   * Hash: number of the verification batch, `<chunk>:<batch>` -> its `WaitingBatch` as JSON; only
   * batches with rows that wait.
   */
  waiting: `waiting:${taggedTenant(tenant)}:${job}`,
  /**
   * Mark of an erased job, kept as long as its results would have been: `1`, or `done:<ms>` once no
   * store has a copy of its key.
   */
  erased: `erased:${taggedTenant(tenant)}:${job}`,
})

/** The field with the inline results of a job, from its end until its close. */
export const INLINE_RESULTS_FIELD = 'attached'

/** The job id in an `open:<job>` field of a wallet; undefined for other fields. */
export const openJobIn = (field: string): string | undefined => /^open:(.+)$/.exec(field)?.[1]

/** Hash: cursor -> offset of the last contact of the partition that is in a job. */
export const cursorsKey = (
  tenant: string, { partner, partition }: { readonly partner: string, readonly partition: number }
): string => `cursors:${taggedTenant(tenant)}:${partner}:${partition}`

/**
 * Sorted sets of erasures in progress, `<tenant> <job>`, by the time of the request and of the next
 * check.
 */
export const ERASURES_KEYS = {
  requested: 'erasures:requested', compacting: 'erasures:compacting',
} as const

/** Of each server, a string: its run in which erased jobs were re-erased. */
export const ERASED_IN = 'erased-in'

/** Of each server, a string: the time, in ms, up to which it has all erasures. */
export const ERASED_UNTIL = 'erased-until'

/**
 * Hashes of the idempotency keys that were first used on even and on odd days (UTC): key -> end of
 * the binding, its job, and the fingerprint of the request; see `idempotency.lua`.
 */
export const toIdempotencyKeys = (tenant: string): readonly [string, string] =>
  [`idem:${taggedTenant(tenant)}:even`, `idem:${taggedTenant(tenant)}:odd`]

/** The field of an idempotency key in one of these hashes: a UUID as 16 bytes. */
export const toIdempotencyField = (key: string): Buffer =>
  Buffer.from(key.replaceAll('-', '').replace(/[0-9a-f]{2}/gi,
    pair => String.fromCharCode(Number.parseInt(pair, 16))), 'latin1')

/** Pub/sub channel: ids of jobs whose outcome is decided, whose status changed, or that ended. */
export const OUTCOMES_CHANNEL = 'outcomes'

/** The fields of the counts of a job. */
export const COUNTS = [
  'finishedRows', 'inputBlocks', ...USAGE_COUNTERS, 'successRecords', 'failedRecords',
] as const satisfies readonly (keyof JobCounts)[]

/** Fields of a job hash: its claim, its refusal and the job. Blocks have fields of their own. */
export const RECORD_FIELDS = [
  'acceptBy', 'claimedAt', 'idempotencyKey', 'fingerprint', 'owner', 'quoteOnly', 'claimedIn',
  'apiKey', 'deadlineMs', 'refusal', 'requiredMicros', 'availableMicros',
  'id', 'status', 'service', 'lane', 'totalRows', 'invalidRows', 'duplicateRows', 'quotedHits',
  'quotedFresh', 'maxQuoteMicros', 'quoteId', 'unitPriceMicros', 'chunks', 'feed', 'forceFresh',
  'header', 'createdAtMs', 'updatedAtMs', 'announced', 'rebuilt', 'ended', 'closed', 'endedAtMs',
  ...COUNTS,
  'verdicts', 'chargedMicros', 'releasedMicros', 'reserveSeq', 'settleSeq', 'journaledSettleSeq',
  'journaledChargeMicros', 'events', 'lowBalanceMicros', 'sample',
] as const

/** A job record as Redis or a script returns it: all values are text. */
export type JobFields = Readonly<Record<string, string | undefined>>

/** The record from the reply of HMGET for `RECORD_FIELDS`. */
export function recordFields (values: readonly (string | null)[]): JobFields {
  return Object.fromEntries(RECORD_FIELDS.flatMap((name, index) => {
    const value = values[index] ?? undefined
    return value === undefined ? [] : [[name, value] as const]
  }))
}

/** The fields of a flat list of names and values, as scripts return a hash. */
export function toFields (pairs: readonly string[]): JobFields {
  const fields: Record<string, string> = Object.create(null)
  for (let at = 0; at + 1 < pairs.length; at += 2) fields[pairs[at]!] = pairs[at + 1]!
  return fields
}

/**
 * The accepted job in a record.
 * @throws RangeError when a count or amount is not a safe integer.
 */
export function parseJob (tenant: string, fields: JobFields): Job {
  const number = (name: string) => integer(fields[name])
  // `<partner>:<partition>`; the name of a partner has no colon.
  const [partner = '', partition = ''] = fields['feed']?.split(':') ?? []
  return {
    id: fields['id'] ?? '',
    tenant,
    service: fields['service'] as ServiceSlug,
    lane: fields['lane'] as Lane,
    status: fields['status'] as JobStatus,
    preflight: parsePreflight(fields),
    unitPriceMicros: number('unitPriceMicros'),
    chunks: number('chunks'),
    ...fields['feed'] !== undefined && { feed: { partner, partition: integer(partition) } },
    // Jobs of feeds and of older releases have none.
    ...fields['apiKey'] && { apiKey: fields['apiKey'] },
    ...deadlineIn(fields['deadlineMs']),
    forceFresh: fields['forceFresh'] === '1',
    header: Buffer.from(fields['header'] ?? '', 'base64'),
    createdAtMs: number('createdAtMs'),
    updatedAtMs: number('updatedAtMs'),
    announced: fields['announced'] === '1',
    rebuilt: fields['rebuilt'] === '1',
    ended: fields['ended'] === '1',
    closed: fields['closed'] === '1',
    endedAtMs: number('endedAtMs'),
    counts: Object.fromEntries(COUNTS.map(name => [name, number(name)])) as JobCounts,
    verdicts: JSON.parse(fields['verdicts'] ?? '{}') as VerdictCounts,
    chargedMicros: number('chargedMicros'),
    releasedMicros: number('releasedMicros'),
    ...parseNotices(fields),
  }
}

/** The outcome in the record of a claim or job. */
export function outcomeIn (
  { tenant, job }: { readonly tenant: string, readonly job: string }, fields: JobFields
): Outcome {
  if (fields['status'] !== undefined) return { kind: 'accepted', job: parseJob(tenant, fields) }
  const refusal = parseRefusal(job, fields)
  return refusal === undefined ? { kind: 'open' } : { kind: 'refused', refusal }
}

/** The record of a job, as a flat list of names and values. */
export function toRecord (job: Job): readonly string[] {
  const { preflight, counts, verdicts, feed, header, events, lowBalance, tenant: _, ...own } = job
  const { cacheHits: quotedHits, freshChecks: quotedFresh, ...rows } = preflight
  const fields = {
    ...own,
    ...rows,
    quotedHits,
    quotedFresh,
    ...counts,
    verdicts: JSON.stringify(verdicts),
    ...feed && { feed: `${feed.partner}:${feed.partition}` },
    header: header.toString('base64'),
    ...events && { events: events.join(' ') },
    ...lowBalance && {
      lowBalanceMicros: lowBalance.thresholdMicros, availableMicros: lowBalance.availableMicros,
    },
  }
  return Object.entries(fields).flatMap(([name, value]) =>
    [name, String(typeof value === 'boolean' ? Number(value) : value)])
}

/**
 * The rows of a job that wait, from the JSON of its batches and the field `pace` of its record;
 * undefined if none does.
 */
export function waitingRowsIn (
  batches: readonly string[], pace: string | null
): WaitingRows | undefined {
  const reasons: Partial<Record<Reason, number>> = {}
  let [rows, dueRows, lastDueMs, deadlineMs] = [0, 0, 0, 0]
  for (const text of batches) {
    const batch = JSON.parse(text) as WaitingBatch
    const counts = Object.entries(batch.reasons) as [Reason, number][]
    for (const [reason, count] of counts) reasons[reason] = (reasons[reason] ?? 0) + count
    const all = counts.reduce((sum, [, count]) => sum + count, 0)
    rows += all
    dueRows += batch.dueRows ?? all
    lastDueMs = Math.max(lastDueMs, batch.lastDueMs)
    deadlineMs = Math.max(deadlineMs, batch.deadlineMs ?? Infinity)
  }
  if (rows === 0) return undefined
  const [atMs, answered] = (pace ?? '').split(' ').map(Number)
  return {
    rows,
    reasons,
    dueRows,
    lastDueMs,
    ...deadlineMs < Infinity && { deadlineMs },
    ...atMs !== undefined && answered !== undefined && { earlier: { atMs, answered } },
  }
}

/** The refusal in the record of a job, if any. */
export function parseRefusal (job: string, fields: JobFields): Refusal | undefined {
  const code = fields['refusal']
  switch (code) {
    case undefined: return undefined
    case 'insufficient_balance': return {
      code,
      requiredMicros: integer(fields['requiredMicros']),
      availableMicros: integer(fields['availableMicros']),
    }
    case 'quoted': return {
      code,
      preflight: parsePreflight(fields),
      expiresAtMs: integer(fields['acceptBy']) + REFUSAL_TTL_MS,
      ...parseSample(fields['sample']),
    }
    case 'concurrent_jobs_limit':
    case 'cursor_moved':
    case 'frozen':
    case 'expired':
    case 'internal': return { code }
    default: throw new Error(`job ${job} has the unknown refusal code "${code}"; it may have ` +
      'been written by a newer release')
  }
}

/** The digest and the rows, separated by spaces. */
function parseSample (text: string | undefined): { readonly sample?: QuoteSample } {
  if (text === undefined) return {}
  const [digest = '', ...rows] = text.split(' ')
  return { sample: { digest, rows: rows.map(integer) } }
}

function parsePreflight (fields: JobFields): Preflight {
  const number = (name: string) => integer(fields[name])
  return {
    totalRows: number('totalRows'),
    invalidRows: number('invalidRows'),
    duplicateRows: number('duplicateRows'),
    cacheHits: number('quotedHits'),
    freshChecks: number('quotedFresh'),
    maxQuoteMicros: number('maxQuoteMicros'),
    quoteId: fields['quoteId'] ?? '',
  }
}

/** The deadline of a job, if it has one. */
export function deadlineIn (text: string | null | undefined): Pick<Job, 'deadlineMs'> {
  return typeof text === 'string' ? { deadlineMs: integer(text) } : {}
}

/** What webhook endpoints may learn before the end of the job. */
function parseNotices ({ events, ...fields }: JobFields): Pick<Job, 'events' | 'lowBalance'> {
  const threshold = fields['lowBalanceMicros']
  const lowBalance = threshold === undefined
    ? undefined
    : checkLowBalance({
      thresholdMicros: integer(threshold),
      reservedMicros: integer(fields['maxQuoteMicros']),
      availableMicros: integer(fields['availableMicros']),
    })
  return {
    ...events !== undefined && { events: events.split(' ') as EventType[] },
    ...lowBalance && { lowBalance },
  }
}

/** How long refusals and quotes are kept. */
export const REFUSAL_TTL_MS = 60_000

/**
 * Prefixes of manifest fields in the hash of a job, before the digest of a block: the rows that it
 * won, and its number in the order in which blocks were counted.
 */
export const [BLOCK, ORDER] = ['block:', 'order:'] as const

/** The manifest in the hash of a job: the blocks that count, by chunk. */
export function toManifest (fields: Readonly<Record<string, Buffer>>): ManifestEntry[] {
  return Object.entries(fields)
    .filter(([name]) => name.startsWith(BLOCK))
    .map(([name, entry]) => {
      const digest = name.slice(BLOCK.length)
      const order = fields[ORDER + digest]?.toString()
      return unpackEntry(digest, entry, order === undefined ? undefined : integer(order))
    })
    .sort(byChunk)
}

/**
 * The manifest in a reply of tally.lua: the digest and the packed entry of each block, in hex, in
 * the order in which they were counted.
 */
export function manifestIn (text: string): ManifestEntry[] {
  return text.split(' ').map((entry, index) => {
    const [digest = '', packed = ''] = entry.split(':')
    return unpackEntry(digest, Buffer.from(packed, 'hex'), index + 1)
  }).sort(byChunk)
}

const byChunk = (a: ManifestEntry, b: ManifestEntry) =>
  a.chunk - b.chunk || (a.digest < b.digest ? -1 : 1)

/** Chunk and first row as big-endian 32-bit numbers and one byte for inputs; the bitmap follows. */
const HEADER_BYTES = 9

/**
 * Decodes a manifest entry; see `packed` in common.lua.
 * @throws RangeError when it is too short.
 */
function unpackEntry (
  digest: string, packed: Buffer, order: ManifestEntry['order']
): ManifestEntry {
  if (packed.length < HEADER_BYTES) {
    throw new RangeError(
      `the manifest entry ${digest} has ${packed.length} bytes, expected at least ${HEADER_BYTES}`)
  }
  return {
    chunk: packed.readUInt32BE(0),
    digest,
    won: packed.subarray(HEADER_BYTES),
    firstRow: packed.readUInt32BE(4),
    inputs: packed.readUInt8(8) === 1,
    order,
  }
}

/**
 * Bitmap of all rows of a job, least significant bit first: rows that no manifest entry has won.
 */
export function findUnfinishedRows (totalRows: number, manifest: readonly ManifestEntry[]): Buffer {
  const open = fullBitmap(totalRows)
  for (const { won, firstRow } of manifest) {
    for (const index of indexes(won)) remove(open, firstRow + index)
  }
  return open
}

/** Whether manifest entries have won all rows of a job: those of one without its key have not. */
export function hasAllRows (totalRows: number, manifest: readonly ManifestEntry[]): boolean {
  return findUnfinishedRows(totalRows, manifest).every(byte => byte === 0)
}
