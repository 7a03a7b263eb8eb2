import { moneyKeys } from '../money/redis-keys.ts'
import {
  createMarkActive, parseEntry, GUARD_LUA, guardedScript, integer, WALLET_LUA,
} from '../money/wallet.ts'
import {
  type AcceptRequest, type BatchAction, type Cancelled, type ClaimRequest, type DecidedOutcome,
  type FailBlock, type Feed, type IdempotencyClaim, type InlineResults, type Job,
  type ManifestEntry, type OpenJob, type Outcome, type Tallied, type TallyBlock, type WaitingBatch,
  type WaitingRows,
} from './job.ts'
import {
  BLOCK, cursorsKey, deadlineIn, toFields, toIdempotencyKeys, INLINE_RESULTS_FIELD, jobRedisKeys,
  parseJob, manifestIn, toManifest, openJobIn, ORDER, outcomeIn, OUTCOMES_CHANNEL, RECORD_FIELDS,
  recordFields, REFUSAL_TTL_MS, parseRefusal, findUnfinishedRows, waitingRowsIn,
} from './job-record.ts'
import { joinLua, namedArguments, type RedisClient, script } from '../runtime/platform/redis.ts'
import { siblingOf } from '../accounts/tenant.ts'
import { countBits } from '../runtime/platform/bitmap.ts'

export type JobStore = ReturnType<typeof createJobStore>

/** The store of running jobs in Redis: one idempotent script per step. */
export function createJobStore (redis: RedisClient) {
  const scripts = loadScripts(redis)
  const reads = createReads(redis, scripts)
  return {
    ...createRequestSteps(redis, scripts),
    ...reads,
    ...createRunningSteps(scripts),
    ...createEndSteps(scripts, reads),
  }
}

type Scripts = ReturnType<typeof loadScripts>
type Reads = ReturnType<typeof createReads>

/** A job and its manifest: the blocks that count. */
export type JobWithManifest = {
  readonly job: Job
  readonly manifest: readonly ManifestEntry[]
  /** The inline results that were kept; none or '' once the job is closed. */
  readonly inlineResults?: string | undefined
}

/** The steps of a request until its job is accepted or refused. */
function createRequestSteps (redis: RedisClient, scripts: Scripts) {
  const markActive = createMarkActive(redis)
  return {
    /**
     * Binds an idempotency key, if there is one, to a job id until `acceptBy`, and stores the data
     * key of the job.
     */
    claim: async (tenant: string, request: ClaimRequest): Promise<IdempotencyClaim> => {
      const { job, idempotencyKey, fingerprint, otherFingerprints = [] } = request
      const { acceptWithinMs, wrappedKey } = request
      const { quoteOnly = false, owner = '', apiKey = '', endWithinMs } = request
      const args = namedArguments({
        job,
        idempotencyKey,
        fingerprint,
        otherFingerprints,
        acceptWithinMs,
        quoteOnly: quoteOnly ? 1 : 0,
        owner,
        apiKey,
        endWithinMs,
      })
      return parseClaim(await scripts.claim(tenant, claimKeys(tenant, job), [args, wrappedKey]))
    },

    /**
     * Reserves the price and stores the job, or refuses it. The result for a job id never changes.
     */
    accept: async (tenant: string, request: AcceptRequest): Promise<DecidedOutcome> => {
      // Before the script: `ledger` ships only the outboxes of active tenants.
      await markActive(tenant)
      const keys = [
        ...claimKeys(tenant, request.id), cursorsKey(tenant, request.feed ?? NO_FEED),
        moneyKeys(siblingOf(tenant)).wallet,
      ]
      const reply = await scripts.accept(tenant, keys, [acceptArguments(tenant, request)])
      return parseAccepted({ tenant, job: request.id }, reply)
    },

    /**
     * Refuses a claim and deletes its data key, or returns its stored outcome. `expired` has no
     * effect before `acceptBy`; then the outcome is `open`.
     */
    refuse: async (tenant: string, job: string, code: 'expired' | 'internal'): Promise<Outcome> => {
      const reply = await scripts.refuse(tenant, claimKeys(tenant, job), [job, code])
      if (reply[0] === 'open') return { kind: 'open' }
      const outcome = parseAccepted({ tenant, job }, reply)
      const isForgotten =
        outcome.kind === 'refused' && toFields(reply.slice(1))['forgotten'] === '1'
      return isForgotten ? { ...outcome, forgotten: true } : outcome
    },
  }
}

const runUntil = ({ deadlineMs }: Pick<Job, 'deadlineMs'>): BatchAction =>
  deadlineMs === undefined ? { action: 'run' } : { action: 'run', deadlineMs }

/** Reads; they change nothing. */
function createReads (redis: RedisClient, scripts: Scripts) {
  const readGuarded = (tenant: string, job: string) =>
    scripts.read(tenant, [jobRedisKeys(tenant, job).job], [])
  /** A missing job is read again behind the recovery guard: Redis may have lost its data. */
  const fieldsIn = async (tenant: string, job: string) => {
    const fields = recordFields(await redis.hmget(jobRedisKeys(tenant, job).job, ...RECORD_FIELDS))
    const isDecided = fields['status'] !== undefined || fields['refusal'] !== undefined
    return isDecided ? fields : toFields((await readGuarded(tenant, job)).slice(1))
  }
  /** The accepted job, until 10 minutes after its close. */
  const read = async (tenant: string, job: string): Promise<Job | undefined> => {
    const fields = await fieldsIn(tenant, job)
    return fields['status'] === undefined ? undefined : parseJob(tenant, fields)
  }
  return {
    read,

    outcome: async (tenant: string, job: string): Promise<Outcome> =>
      outcomeIn({ tenant, job }, await fieldsIn(tenant, job)),

    /** The accepted job and its manifest by chunk, read atomically. */
    readWithManifest: async (tenant: string, job: string): Promise<JobWithManifest | undefined> => {
      const stored = await redis.hgetallBuffer(jobRedisKeys(tenant, job).job)
      const fields = recordFields(RECORD_FIELDS.map(name => stored[name]?.toString() ?? null))
      if (fields['status'] !== undefined) {
        const inlineResults = stored[INLINE_RESULTS_FIELD]?.toString()
        return { job: parseJob(tenant, fields), manifest: toManifest(stored), inlineResults }
      }
      // Throws while the recovery guard is active: then a missing record proves nothing.
      await readGuarded(tenant, job)
      return undefined
    },

    batchAction: async (tenant: string, job: string): Promise<BatchAction> => {
      const { job: key } = jobRedisKeys(tenant, job)
      const [status, ended, deadline] = await redis.hmget(key, 'status', 'ended', 'deadlineMs')
      if (status === null) {
        const current = await read(tenant, job)
        return current === undefined ? { action: 'skip' } : runUntil(current)
      }
      if (ended === '1') return { action: 'skip' }
      return status === 'cancelling' ? { action: status } : runUntil(deadlineIn(deadline))
    },

    /** The rows of a running job that wait for their next check; undefined if none does. */
    waitingRows: async (tenant: string, job: string): Promise<WaitingRows | undefined> =>
      waitingRowsIn(...await Promise.all([
        redis.hvals(jobRedisKeys(tenant, job).waiting),
        redis.hget(jobRedisKeys(tenant, job).job, 'pace'),
      ])),

    /** Jobs that are not closed, the oldest first. */
    openJobs: async (tenant: string): Promise<OpenJob[]> => {
      const fields = Object.entries(await redis.hgetall(moneyKeys(tenant).wallet))
      return fields.flatMap(([name, at]) => {
        const job = openJobIn(name)
        return job === undefined ? [] : [{ job, sinceMs: Number(at) }]
      }).toSorted((a, b) => a.sinceMs - b.sinceMs)
    },
  }
}

/** What waits of a verification batch; nothing without `waiting`. */
type WaitingRecord = {
  readonly tenant: string
  readonly job: string
  readonly batch: { readonly chunk: number, readonly batch: number }
  readonly waiting: WaitingBatch | undefined
}

/** The steps of a running job. */
function createRunningSteps (scripts: Scripts) {
  return {
    /**
     * Marks the job as produced, notifies its request, and removes the reserve entry `seq`, which
     * the journal topic has acknowledged, from the outbox.
     */
    announce: async (tenant: string, job: string, seq?: number): Promise<void> => {
      await scripts.announce(tenant, [jobRedisKeys(tenant, job).job], [job, seq ?? ''])
    },

    /**
     * Records the rows of a verification batch that wait for their next check, or that none does
     * any more. Repeating it has no effect, nor has it for a job that has ended.
     */
    recordWaiting: async ({ tenant, job, batch, waiting }: WaitingRecord): Promise<void> => {
      const keys = jobRedisKeys(tenant, job)
      const name = `${batch.chunk}:${batch.batch}`
      await scripts.waiting(
        [keys.job, keys.waiting], [name, waiting === undefined ? '' : JSON.stringify(waiting)])
    },

    /** Cancels a job: checks under way finish and are charged, all other rows end free. */
    cancel: async (tenant: string, job: string): Promise<Cancelled> =>
      parseCancelled(tenant, await scripts.cancel(tenant, [jobRedisKeys(tenant, job).job], [])),

    /**
     * Counts the rows of a block that no earlier block has; ends and settles the job with the last
     * row. With `recount`, `ledger` counts the blocks of a job again in their original order.
     * @throws ReplayingError for a block that replaces lost ones, while its job is recounted.
     */
    tally: async (
      tenant: string, block: TallyBlock, { recount = false }: { readonly recount?: boolean } = {}
    ): Promise<Tallied> => {
      const step = { blocks: [block], inline: NO_INLINE_RESULTS, recount } as const
      return parseTallied(tenant, await scripts.tally(
        tenant, tallyKeys(tenant, block.job), tallyArguments(tenant, step)))
    },

    /**
     * Tallies blocks of one job in their order, several in one step. Returns each step. Requests
     * that wait for the job get the inline results with the notification of its end.
     */
    tallyAll: async (
      tenant: string, blocks: readonly TallyBlock[], inline: InlineResults = NO_INLINE_RESULTS
    ): Promise<readonly Tallied[]> =>
      // Redis answers in the order of the requests, so the steps are counted in order.
      await Promise.all(toSteps(blocks).map(async step => parseTallied(tenant, await scripts.tally(
        tenant, tallyKeys(tenant, step[0].job),
        tallyArguments(tenant, { blocks: step, inline, recount: false }))))),
  }
}

const NO_INLINE_RESULTS: InlineResults = { text: '', keeps: false }

/** More blocks would keep Redis busy for too long. */
const BLOCKS_PER_STEP = 8

type Step = readonly [TallyBlock, ...TallyBlock[]]

function toSteps ([first, ...rest]: readonly TallyBlock[]): readonly Step[] {
  if (first === undefined) return []
  const step: Step = [first, ...rest.slice(0, BLOCKS_PER_STEP - 1)]
  return [step, ...toSteps(rest.slice(BLOCKS_PER_STEP - 1))]
}

/** The steps that close an ended job, or end a stalled one. */
function createEndSteps (scripts: Scripts, { readWithManifest }: Reads) {
  return {
    /** Ends a job whose last row was counted while the wallet was frozen. */
    end: async (tenant: string, job: string): Promise<Tallied> =>
      parseTallied(tenant,
        await scripts.end(tenant, [jobRedisKeys(tenant, job).job], [tenant, job])),

    /**
     * Closes an ended job; its record and data key expire after 10 minutes. Removes the journal
     * entry `seq`, which the journal topic has acknowledged, from the outbox. Returns false if the
     * job has not ended.
     */
    close: async (tenant: string, job: string, seq?: number): Promise<boolean> => {
      const keys = jobRedisKeys(tenant, job)
      const [answer] =
        await scripts.close(tenant, [keys.job, keys.dataKey, keys.waiting], [job, seq ?? ''])
      return answer === 'closed'
    },

    /** Bitmap of the whole job: rows that no block has finished; undefined unless the job runs. */
    unfinishedRows: async (tenant: string, job: string): Promise<Buffer | undefined> => {
      const current = await readWithManifest(tenant, job)
      if (current === undefined || current.job.ended) return undefined
      return findUnfinishedRows(current.job.preflight.totalRows, current.manifest)
    },

    /**
     * Ends a stalled job as failed: assigns its open rows to the block, charges rows that were
     * verified live, and releases the rest. Returns `known` with `ended: false` if the job has made
     * progress since `unfinishedRows`.
     */
    fail: async (
      tenant: string, job: string, { digest, finished }: FailBlock
    ): Promise<Tallied> => {
      const args = namedArguments({ tenant, job, digest, rows: countBits(finished) })
      return parseTallied(
        tenant, await scripts.fail(tenant, tallyKeys(tenant, job), [args, finished]))
    },
  }
}

/** Lua: how long Redis keeps the state of a job, and idempotency keys; `ledger` rebuilds both. */
export const STATE_LUA = ['retention', 'idempotency']
  .map(name => new URL(`./${name}.lua`, import.meta.url))

const COMMON_LUA = new URL('./common.lua', import.meta.url)
const WAITING_LUA = new URL('./waiting.lua', import.meta.url)
/** What scripts and this code both know of a record. */
const CONSTANTS_LUA = `
local RECORD_FIELDS = { '${RECORD_FIELDS.join("', '")}' }
local BLOCK, ORDER, INLINE_RESULTS = '${BLOCK}', '${ORDER}', '${INLINE_RESULTS_FIELD}'
local OUTCOMES, REFUSAL_TTL_MS = '${OUTCOMES_CHANNEL}', ${REFUSAL_TTL_MS}
`

/**
 * Loads a script of jobs. Its first key is the wallet of the tenant.
 *
 * The source is one text, joined in this order, so that each file may call what is before it:
 * `CONSTANTS_LUA`; money/recovery-guard.lua; money/wallet.lua; retention.lua; idempotency.lua;
 * common.lua; and the script itself.
 */
function jobScript (redis: RedisClient, name: string, numberOfKeys: number) {
  const file = new URL(`./${name}.lua`, import.meta.url)
  const source = CONSTANTS_LUA + joinLua(GUARD_LUA, WALLET_LUA, ...STATE_LUA, COMMON_LUA, file)
  const call = guardedScript(redis, { name, source, numberOfKeys: 1 + numberOfKeys })
  return async (
    tenant: string, keys: readonly string[], args: readonly (string | number | Buffer)[]
  ) => await call(tenant, [moneyKeys(tenant).wallet, ...keys], args) as string[]
}

/** The scripts; the number counts their keys without the wallet. */
function loadScripts (redis: RedisClient) {
  return {
    claim: jobScript(redis, 'claim', 4),
    accept: jobScript(redis, 'accept', 6),
    refuse: jobScript(redis, 'refuse', 4),
    announce: jobScript(redis, 'announce', 1),
    tally: jobScript(redis, 'tally', 2),
    fail: jobScript(redis, 'fail', 2),
    close: jobScript(redis, 'close', 3),
    end: jobScript(redis, 'end', 1),
    read: jobScript(redis, 'read', 1),
    cancel: jobScript(redis, 'cancel', 1),
    // Moves no money and decides nothing, so it needs no recovery guard.
    waiting: script(redis, {
      name: 'waiting',
      source: joinLua(new URL('./retention.lua', import.meta.url), WAITING_LUA),
      numberOfKeys: 2,
    }),
  }
}

function claimKeys (tenant: string, id: string) {
  const { job, dataKey } = jobRedisKeys(tenant, id)
  return [job, dataKey, ...toIdempotencyKeys(tenant)]
}

/** Placeholder of a job without a feed: a hash of cursors that does not exist, and no cursor. */
const NO_FEED: Feed = {
  partner: '', partition: -1, cursor: '', from: -1, to: -1, unitPriceMicros: null,
}

function acceptArguments (tenant: string, request: AcceptRequest): string {
  const { preflight, feed = NO_FEED, events = [], lowBalanceMicros, sample } = request
  const { cacheHits, freshChecks } = preflight
  return namedArguments({
    tenant,
    job: request.id,
    idempotencyKey: request.idempotencyKey,
    acceptByMs: request.acceptByMs,
    freshChecks,
    maxSlots: request.maxActiveJobs,
    maxQuoteMicros: preflight.maxQuoteMicros,
    unitPriceMicros: request.unitPriceMicros,
    chargeableRows: cacheHits + freshChecks,
    header: request.header.toString('base64'),
    cursor: feed.cursor,
    from: feed.from,
    to: feed.to,
    record: {
      service: request.service,
      lane: request.lane,
      totalRows: preflight.totalRows,
      invalidRows: preflight.invalidRows,
      duplicateRows: preflight.duplicateRows,
      quotedHits: cacheHits,
      quotedFresh: freshChecks,
      quoteId: preflight.quoteId,
      chunks: request.chunks,
      forceFresh: request.forceFresh ? 1 : 0,
      createdAtMs: request.createdAtMs,
      ...feed.partner !== '' && { feed: `${feed.partner}:${feed.partition}` },
      ...events.length > 0 && { events: events.join(' ') },
      lowBalanceMicros,
      ...sample && { sample: [sample.digest, ...sample.rows].join(' ') },
    },
  })
}

function tallyKeys (tenant: string, id: string) {
  return [jobRedisKeys(tenant, id).job, moneyKeys(tenant).recounts]
}

type TallyStep = {
  /** Of one job. */
  readonly blocks: Step
  readonly inline: InlineResults
  readonly recount: boolean
}

type Arguments = (string | number | Buffer)[]

function tallyArguments (
  tenant: string, { blocks, inline: { text, keeps }, recount }: TallyStep
): Arguments {
  const fields = blocks.flatMap(block => blockArguments(block, recount))
  return [tenant, blocks[0].job, text, keeps ? 1 : 0, ...fields]
}

function blockArguments (block: TallyBlock, recount: boolean): Arguments {
  const { finished, cached, live, invalid, unknown, cancelled } = block
  const withInputs = block.replacesLost ? 2 : 1
  return [
    block.chunk, block.digest, block.inputs ? withInputs : 0, block.firstRow,
    finished, cached, live, invalid, unknown, cancelled, packDuplicates(block.duplicates),
    block.replacesLost && !recount ? 1 : 0, ...packVerdicts(block.verdicts ?? []),
  ]
}

/** Pairs of big-endian 32-bit numbers: row, number of duplicates. */
function packDuplicates (duplicates: TallyBlock['duplicates']): Buffer {
  const packed = Buffer.alloc(duplicates.length * 8)
  for (const [index, { row, count: copies }] of duplicates.entries()) {
    packed.writeUInt32BE(row, index * 8)
    packed.writeUInt32BE(copies, index * 8 + 4)
  }
  return packed
}

/**
 * Status, reason, first byte and number of bytes of each bitmap, one a line, and the bitmaps, one
 * after the other.
 */
function packVerdicts (verdicts: NonNullable<TallyBlock['verdicts']>): [string, Buffer] {
  const lines = verdicts.map(({ status, reason, firstRow, rows }) =>
    `${status} ${reason} ${firstRow / 8} ${rows.length}`)
  return [lines.join('\n'), Buffer.concat(verdicts.map(({ rows }) => rows))]
}

/** Decodes the reply of `claim`. */
function parseClaim (reply: readonly string[]): IdempotencyClaim {
  const [kind, ...rest] = reply
  switch (kind) {
    case 'new': return { kind, nowMs: integer(rest[0]), acceptByMs: integer(rest[1]) }
    case 'same': {
      const [job = '', acceptBy, owner = ''] = rest
      return { kind, job, acceptByMs: integer(acceptBy), owner }
    }
    case 'reused': return { kind }
    default: throw new Error(`unexpected reply of claim: ${kind}`)
  }
}

type JobOfTenant = { readonly tenant: string, readonly job: string }

/** Decodes the reply of `accept`. */
function parseAccepted ({ tenant, job }: JobOfTenant, reply: readonly string[]): DecidedOutcome {
  const [kind, entry] = reply
  if (kind === 'refused') {
    const refusal = parseRefusal(job, toFields(reply.slice(1)))
    if (refusal === undefined) throw new Error(`reply for job ${job} lacks a refusal code`)
    return { kind, refusal }
  }
  const record = parseJob(tenant, toFields(reply.slice(2)))
  return { kind: 'accepted', job: record, entry: entryIn(entry) }
}

/** Decodes the reply of `tally` and `fail`. */
function parseTallied (tenant: string, reply: readonly string[]): Tallied {
  const [kind, ended, entry, ...pairs] = reply
  if (kind === 'skip') return { kind }
  if (kind !== 'counted' && kind !== 'known') throw new Error(`unexpected reply of tally: ${kind}`)
  const fields = toFields(pairs)
  const { manifest } = fields
  return {
    kind,
    ended: ended === '1',
    entry: entryIn(entry),
    job: parseJob(tenant, fields),
    ...manifest !== undefined && { manifest: manifestIn(manifest) },
  }
}

/** Decodes the reply of `cancel`. */
function parseCancelled (tenant: string, reply: readonly string[]): Cancelled {
  const [kind, ...pairs] = reply
  if (kind === 'unknown') return { kind }
  if (kind !== 'cancelling' && kind !== 'ended') {
    throw new Error(`unexpected reply of cancel: ${kind}`)
  }
  return { kind, job: parseJob(tenant, toFields(pairs)) }
}

const entryIn = (json = '') => json === '' ? undefined : parseEntry(json)
