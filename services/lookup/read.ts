import { LRUCache } from 'lru-cache'
import { createHash, hash } from 'node:crypto'
import type { ListAction } from '../../schemas/api/contact-lists.ts'
import { MAX_SAMPLE_ROWS, MIN_SAMPLE_ROWS, ROWS_PER_SAMPLE_ROW } from '../../schemas/api/quote.ts'
import type { Normalized, NormalizedRows } from '../../schemas/types.ts'
import type { ContactLists } from '../accounts/contact-lists.ts'
import { parseTenant } from '../accounts/tenant.ts'
import { type CachedRecord, isCurrent, type RecordCache } from '../cache/cache.ts'
import { TOKEN_BYTES } from '../cache/tokens.ts'
import type { Preflight, QuoteSample } from '../jobs/job.ts'
import { hasOptions } from '../jobs/options.ts'
import { type ChunkCoordinates, toCoordinates } from '../jobs/results/block.ts'
import { contactIdentities, SERVICE_DEFINITIONS } from '../jobs/results/columns.ts'
import type { Incoming } from '../runtime/engine/stage.ts'
import { InconsistencyError } from '../runtime/platform/errors.ts'
import { FairSlots, eventLoop } from '../runtime/platform/limits.ts'
import { withTimeout } from '../runtime/platform/retry.ts'
import { chooseLane } from '../runtime/platform/topics.ts'
import type { Lane, ServiceSlug } from '../topology.ts'

export type ChunkMessage = Incoming<'rows.normalized'>

/** The messages of a job. */
export type JobMessages = {
  /** The first message of each chunk, in the order of the chunks. */
  readonly messages: readonly ChunkMessage[]
  /** All messages, repeated ones included. */
  readonly members: readonly ChunkMessage[]
}

/** What a job is made of. */
export type PreflightCounts = Omit<Preflight, 'maxQuoteMicros' | 'quoteId'>

/** Maximum number of rows of a verification batch. */
export type BatchRows = (lane: Lane, service: ServiceSlug) => number

/** Terms common to all chunks of a job. */
export type JobTerms = {
  readonly job: string
  readonly lane: Lane
  readonly forceFresh: boolean
  readonly options?: Normalized['options']
  /** Redis time of the request, which decides whether hits are fresh. */
  readonly quotedAtMs: number
  readonly freshnessMs: number
  /** Maximum number of rows of a verification batch. */
  readonly batchRows: number
}

/** The lists of organizations. */
export type ReadableLists = Pick<ContactLists, 'find' | 'hasMailServers'>

/** The terms common to all chunks of a job, from the envelope of one of them. */
export function toJobTerms (
  head: Normalized, freshnessMs: number, batchRows: BatchRows
): JobTerms {
  const lane = chooseLane(head.totalRows)
  return {
    job: head.job,
    lane,
    forceFresh: head.forceFresh,
    options: head.options,
    quotedAtMs: head.submittedAt,
    freshnessMs,
    batchRows: batchRows(lane, toCoordinates(head).service),
  }
}

/** Number of chunks to prefetch. */
const PREFETCH = 4

/**
 * Loads the chunks of a job in row order and counts their rows.
 * @throws InconsistencyError when a chunk is missing, or rows do not match their envelope.
 */
export async function readChunks (
  messages: readonly ChunkMessage[],
  { terms, loader, lists }: {
    readonly terms: JobTerms
    readonly loader: ChunkLoader
    readonly lists?: ReadableLists | undefined
  }
): Promise<{ readonly chunks: readonly Chunk[], readonly counts: PreflightCounts }> {
  const { totalRows } = messages[0]?.value ?? { totalRows: 0 }
  const duplicates = new Duplicates(totalRows)
  const isMixed = new Set(messages.map(({ value }) => value.tokenVersion)).size > 1
  const chunks: Chunk[] = []
  const kinds = { invalid: 0, refused: 0, duplicate: 0, hit: 0, toVerify: 0 }
  let nextRow = 0
  for (const message of messages) {
    const next = messages[chunks.length + PREFETCH]
    if (next !== undefined) loader.prefetch(next)
    const { rows, records } = await loader.load(message)
    const coordinates = toCoordinates(message.value)
    if (coordinates.firstRow !== nextRow) {
      const { chunk, firstRow } = coordinates
      // Rows count from 0.
      throw new InconsistencyError(firstRow > nextRow
        ? `rows ${nextRow}-${firstRow - 1} of job ${terms.job} are missing before chunk ${chunk}`
        : `chunk ${chunk} of job ${terms.job} starts at row ${firstRow}, expected ${nextRow}`)
    }
    nextRow += coordinates.rows
    const { orgId, mode } = parseTenant(coordinates.tenant)
    const listed = await lists?.find(orgId, rows.canonicals) ?? []
    // Only `verify` knows the mail server of a domain, so it answers these rows from the cache.
    const needsMailServer = coordinates.service === 'email-validation' && mode === 'live' &&
      await lists?.hasMailServers(orgId) === true
    const { kind } = SERVICE_DEFINITIONS[coordinates.service]
    // A rotation of the cache secret meanwhile: digests identify the contacts of all versions.
    const tokens = isMixed
      ? Buffer.concat(contactIdentities(kind, rows.canonicals).map(identity =>
        hash('sha256', identity, 'buffer').subarray(0, TOKEN_BYTES)))
      : rows.tokens
    duplicates.add(tokens, row => rows.canonicals[row] === '')
    const hits = needsMailServer ? [] : records.map(record => usableHit(record, terms))
    const { tokenVersion } = message.value
    const chunk = { coordinates, rows, tokenVersion, hits, listed, duplicates }
    for (let row = 0; row < coordinates.rows; row++) kinds[classifyRow(chunk, row)]++
    chunks.push(chunk)
    await eventLoop.yield(terms.lane, coordinates.tenant)
  }
  if (nextRow !== totalRows) {
    throw new InconsistencyError(`the chunks of job ${terms.job} have ${nextRow} rows, ` +
      `expected ${totalRows}`)
  }
  const counts = {
    totalRows,
    // Rows that lists refuse are free like invalid ones.
    invalidRows: kinds.invalid + kinds.refused,
    duplicateRows: kinds.duplicate,
    cacheHits: kinds.hit,
    freshChecks: kinds.toVerify,
  }
  return { chunks, counts }
}

/** One chunk, with the duplicates of the whole job. */
export type Chunk = {
  readonly coordinates: ChunkCoordinates
  readonly rows: NormalizedRows
  /** The version of its tokens; chunks of a job differ during a rotation of the cache secret. */
  readonly tokenVersion: string
  /** By row, the cached record or undefined. */
  readonly hits: readonly (CachedRecord | undefined)[]
  /** By row, what the organization's lists say; empty without lists. */
  readonly listed: readonly (ListAction | undefined)[]
  readonly duplicates: Duplicates
}

export type RowKind = 'invalid' | 'refused' | 'duplicate' | 'hit' | 'toVerify'

/** The kind of a row, which decides whether it is complete or has to be verified. */
export function classifyRow (chunk: Chunk, row: number): RowKind {
  const { rows, hits } = chunk
  if (rows.canonicals[row] === '') return 'invalid'
  if (findOriginal(chunk, row) >= 0) return 'duplicate'
  const action = chunk.listed[row]
  if (action !== undefined) return action === 'allow' ? 'hit' : 'refused'
  return hits[row] === undefined ? 'toVerify' : 'hit'
}

/** The index in the job of the original of a row; -1 if the row is not a duplicate. */
export function findOriginal ({ coordinates, duplicates }: Chunk, row: number): number {
  return duplicates.originals[coordinates.firstRow + row] ?? -1
}

/**
 * The record if it can be used for a row of the job. A record that this job paid for is not a hit:
 * it exists only when the job is looked up again after its checks, and as a hit it would not be
 * charged.
 */
function usableHit (
  record: CachedRecord | undefined, terms: JobTerms
): CachedRecord | undefined {
  if (record === undefined || terms.forceFresh || record.job === terms.job) return undefined
  return isCurrent(record, terms) && hasOptions(record.fields, terms.options) ? record : undefined
}

/** The rows of a chunk and its cached records; no records when the job bypasses the cache. */
type LoadedChunk = {
  readonly rows: NormalizedRows
  readonly records: readonly (CachedRecord | undefined)[]
}

/** Fits one of the largest jobs with inputs as long as phone numbers, and some small ones. */
const MAX_LOADED_BYTES = 16 * 1_024 * 1_024
/**
 * Rows take several times the memory of their message, which is compressed except for the tokens.
 */
const MEMORY_PER_BYTE = 4

/**
 * Decrypts chunks and looks up their tokens in the cache, once per message. `prefetch` starts this
 * when the chunk arrives; the later call of `load` gets the result. It yields to other jobs between
 * chunks and limits concurrent lookups.
 *
 * If there is no memory for the rows of all waiting jobs, further chunks are loaded when their job
 * is decided; until then only their message is held, sealed and compressed. A job larger than the
 * memory drops its first chunks.
 */
export class ChunkLoader {
  readonly #find: RecordCache['find']
  readonly #maxBytes: number
  readonly #loading = new WeakMap<ChunkMessage, Promise<LoadedChunk>>()
  readonly #loaded: LRUCache<ChunkMessage, number>

  constructor (cache: Pick<RecordCache, 'find'>, maxBytes = MAX_LOADED_BYTES) {
    this.#find = withLimit(cache)
    this.#maxBytes = maxBytes
    this.#loaded = new LRUCache({
      maxSize: maxBytes,
      sizeCalculation: bytes => bytes,
      dispose: (_bytes, message) => { this.#loading.delete(message) },
    })
  }

  /** Rejects when the rows are unreadable or do not match their envelope. */
  load (message: ChunkMessage): Promise<LoadedChunk> {
    const loading = this.#loading.get(message)
    if (loading !== undefined) return loading
    const { tenant, totalRows } = message.value
    const started = eventLoop.yield(chooseLane(totalRows), tenant)
      .then(() => openChunk(message, this.#find))
    // The later call sees the failure; until then it may be unhandled.
    started.catch(() => {})
    this.#loading.set(message, started)
    this.#loaded.set(message, estimateMemory(message))
    return started
  }

  /** Starts loading a chunk, if there is memory for it. */
  prefetch (message: ChunkMessage): void {
    if (this.#loaded.calculatedSize + estimateMemory(message) > this.#maxBytes) return
    this.load(message).catch(() => {})
  }

  /** Releases the chunks of a decided job. */
  forget (messages: Iterable<ChunkMessage>): void {
    for (const message of messages) this.#loaded.delete(message)
  }

  /** Releases all chunks. */
  clear (): void {
    this.#loaded.clear()
  }
}

/** The estimated memory of a chunk, in bytes. */
function estimateMemory ({ raw }: ChunkMessage): number {
  return 1 + (raw.value?.length ?? 0) * MEMORY_PER_BYTE
}

async function openChunk (message: ChunkMessage, find: RecordCache['find']): Promise<LoadedChunk> {
  const { value } = message
  const rows = message.rows()
  if (rows.inputs.length !== value.rows || rows.canonicals.length !== value.rows) {
    throw new InconsistencyError(`chunk ${value.chunk} of job ${value.job} has ` +
      `${rows.inputs.length} inputs, ${rows.canonicals.length} canonical forms, expected ` +
      `${value.rows}`)
  }
  if (value.forceFresh) return { rows, records: [] }
  const { tenant, service } = toCoordinates(value)
  const scope = { tenant, service, version: value.tokenVersion, rotated: rows.rotatedTokens }
  return { rows, records: await find(scope, rows.tokens) }
}

/** Concurrent lookups of a lane, so that Redis is never idle. */
const CONCURRENT_LOOKUPS = 2
/** A slower lookup frees its slot: if Redis hangs, all lookups of a job fail at once. */
const LOOKUP_SLOT_MS = 100

/** Lookups by which a tenant that was idle goes before busy ones: a job of 20,000 rows. */
const MAX_CREDIT_LOOKUPS = 10

/**
 * Queues the lookups of one lane here instead of on the connection, which both lanes share: so a
 * lookup of a small job never waits behind a big job, and tenants take turns.
 */
function withLimit (cache: Pick<RecordCache, 'find'>): RecordCache['find'] {
  const slots = new FairSlots({ capacity: CONCURRENT_LOOKUPS, maxCredit: MAX_CREDIT_LOOKUPS })
  return async (...query) => {
    const [{ tenant }] = query
    const { lookup } = await slots.run({ name: tenant, cost: 1 }, async () => {
      const pending = cache.find(...query)
      await withTimeout(pending, LOOKUP_SLOT_MS)
      return { lookup: pending }
    })
    return await lookup
  }
}

/** Number of 32-bit words of a token. */
const WORDS = TOKEN_BYTES / 4

/**
 * Finds exact duplicates in a whole job by their tokens: equal tokens mean equal canonical forms,
 * and the lowest row of a token is the original. Invalid rows have no token and are never
 * duplicates. Works chunk by chunk, so that the caller can yield in between.
 *
 * All tokens are in one array with an open-addressing hash table of rows: strings for 100,000
 * tokens would take five times as long, mostly for garbage collection. Tokens are HMACs, so their
 * first word is a uniform hash. A class, because functions that close over the rows of one job
 * would have to be compiled for each job.
 */
class Duplicates {
  /** By row of the job (from 0), the row of its original; -1 if the row is not a duplicate. */
  readonly originals: Int32Array
  /** By row of the job, the number of its duplicates. */
  readonly copies: Uint32Array
  readonly #words: Uint32Array
  readonly #bytes: Buffer
  readonly #slots: Int32Array
  #rows = 0

  constructor (totalRows: number) {
    this.originals = new Int32Array(totalRows).fill(-1)
    this.copies = new Uint32Array(totalRows)
    this.#words = new Uint32Array(totalRows * WORDS)
    this.#bytes = Buffer.from(this.#words.buffer)
    this.#slots = new Int32Array(2 ** Math.ceil(Math.log2(totalRows * 2 + 1))).fill(-1)
  }

  /** Adds the next chunk of the job, in row order. */
  add (tokens: Buffer, isInvalid: (row: number) => boolean): void {
    const first = this.#rows
    const rows = tokens.length / TOKEN_BYTES
    const totalRows = this.originals.length
    if (first + rows > totalRows) {
      throw new RangeError(`a job of ${totalRows} rows got ${first + rows} tokens`)
    }
    this.#bytes.set(tokens, first * TOKEN_BYTES)
    for (let row = first; row < first + rows; row++) {
      const original = isInvalid(row - first) ? row : this.#find(row)
      if (original === row) continue
      this.originals[row] = original
      this.copies[original] = (this.copies[original] ?? 0) + 1
    }
    this.#rows += rows
  }

  /** The first row with the same token, which may be the row itself. */
  #find (row: number): number {
    const mask = this.#slots.length - 1
    let slot = (this.#words[row * WORDS] ?? 0) & mask
    for (;;) {
      const original = this.#slots[slot] ?? -1
      if (original >= 0 && this.#isSame(original, row)) return original
      if (original < 0) {
        this.#slots[slot] = row
        return row
      }
      slot = (slot + 1) & mask
    }
  }

  #isSame (row: number, other: number): boolean {
    for (let word = 0; word < WORDS; word++) {
      if (this.#words[row * WORDS + word] !== this.#words[other * WORDS + word]) return false
    }
    return true
  }
}

const DIGEST_CHARACTERS = 32

type Candidate = { readonly token: Buffer, readonly row: number }

/**
 * The rows that stand for a list: of the contacts that a job would verify or find in the cache,
 * those with the smallest tokens. Tokens are HMACs of canonical forms, so nobody can choose the
 * rows, and the order, the spelling and the duplicates of a list change nothing. A few more
 * contacts rarely do. undefined for a list that is too small.
 */
export async function chooseSample (
  chunks: readonly Chunk[], { lane }: Pick<JobTerms, 'lane'>
): Promise<QuoteSample | undefined> {
  const smallest: Candidate[] = []
  let contacts = 0
  for (const chunk of chunks) {
    contacts += addSmallest(smallest, chunk)
    await eventLoop.yield(lane, chunk.coordinates.tenant)
  }
  const size = Math.min(MAX_SAMPLE_ROWS, Math.floor(contacts / ROWS_PER_SAMPLE_ROW))
  if (size < MIN_SAMPLE_ROWS) return undefined
  const chosen = smallest.slice(0, size)
  // The tokens of two services may be the same, as they share a cache.
  const digest = createHash('sha256').update(chunks[0]?.coordinates.service ?? '')
  for (const { token } of chosen) digest.update(token)
  return {
    digest: digest.digest('hex').slice(0, DIGEST_CHARACTERS), rows: chosen.map(({ row }) => row),
  }
}

/** Keeps the smallest tokens, in their order. Returns the number of contacts in the chunk. */
function addSmallest (smallest: Candidate[], chunk: Chunk): number {
  const { coordinates: { firstRow, rows }, rows: { tokens } } = chunk
  let contacts = 0
  for (let row = 0; row < rows; row++) {
    const kind = classifyRow(chunk, row)
    if (kind !== 'hit' && kind !== 'toVerify') continue
    contacts++
    const from = row * TOKEN_BYTES
    const last = smallest.length === MAX_SAMPLE_ROWS ? smallest.at(-1) : undefined
    const isLarger = last !== undefined &&
      last.token.compare(tokens, from, from + TOKEN_BYTES) <= 0
    if (isLarger) continue
    const token = tokens.subarray(from, from + TOKEN_BYTES)
    const place = smallest.findIndex(other => other.token.compare(token) > 0)
    smallest.splice(place < 0 ? smallest.length : place, 0, { token, row: firstRow + row })
    if (smallest.length > MAX_SAMPLE_ROWS) smallest.pop()
  }
  return contacts
}
