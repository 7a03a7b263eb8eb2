import { siblingOf } from '../accounts/tenant.ts'
import { GUARD_LUA, WALLET_LUA, joinLua } from '../money/lua.ts'
import { entryOf, integer } from '../money/outbox.ts'
import { guardedScript } from '../money/recovery-guard.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { countBits } from '../runtime/platform/bitmap.ts'
import { RECORD_FIELDS, fieldsOf, jobOf, refusalOf } from './job-record.ts'
import type { Refusal } from './job.ts'
import { manifestIn } from './manifest.ts'
import { cursorsKeyOf, idempotencyKeysOf, jobKeys } from './redis-keys.ts'
import type {
  AcceptRequest, Attachment, ClaimRequest, FailBlock, Feed, TallyBlock, Accepted, Cancelled,
  IdempotencyClaim, Outcome, Tallied,
} from './store-types.ts'
import { namedArguments, type RedisClient } from '../runtime/platform/redis.ts'

/** Lua: how long Redis keeps the state of a job, and idempotency keys; `ledger` rebuilds both. */
export const STATE_LUA = ['retention', 'idempotency']
  .map(name => new URL(`./${name}.lua`, import.meta.url))

const RECORD_LUA = new URL('./record.lua', import.meta.url)
const FIELDS_LUA = `local RECORD_FIELDS = { '${RECORD_FIELDS.join("', '")}' }\n`

/**
 * Loads a script of jobs, with the recovery guard, the wallet and the record functions before it.
 * Its first key is the wallet of the tenant.
 */
function jobScript (redis: RedisClient, name: string, numberOfKeys: number) {
  const file = new URL(`./${name}.lua`, import.meta.url)
  const source = FIELDS_LUA + joinLua(GUARD_LUA, WALLET_LUA, ...STATE_LUA, RECORD_LUA, file)
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
    close: jobScript(redis, 'close', 2),
    endJob: jobScript(redis, 'end', 1),
    read: jobScript(redis, 'read', 1),
    cancel: jobScript(redis, 'cancel', 1),
  }
}

/** One function per script: its keys, and the order of its arguments. */
export function createJobScripts (redis: RedisClient) {
  const {
    claim, accept, refuse, announce, tally, fail, close, endJob, read, cancel,
  } = loadScripts(redis)
  return {
    claim: (tenant: string, request: ClaimRequest) => {
      const { job, idempotencyKey, fingerprint, acceptWithinMs, wrappedKey } = request
      const { quoteOnly = false, owner = '', apiKey = '' } = request
      const args = namedArguments({
        job,
        idempotencyKey,
        fingerprint,
        acceptWithinMs,
        quoteOnly: quoteOnly ? 1 : 0,
        owner,
        apiKey,
      })
      return claim(tenant, claimKeys(tenant, job), [args, wrappedKey])
    },
    accept: (tenant: string, request: AcceptRequest) =>
      accept(tenant, acceptKeys(tenant, request), [acceptArguments(tenant, request)]),
    refuse: (tenant: string, job: string, code: string) =>
      refuse(tenant, claimKeys(tenant, job), [job, code]),
    announce: (tenant: string, job: string, seq?: number) =>
      announce(tenant, [jobKeys(tenant, job).job], [job, seq ?? '']),
    cancel: (tenant: string, job: string) => cancel(tenant, [jobKeys(tenant, job).job], []),
    read: (tenant: string, job: string) => read(tenant, [jobKeys(tenant, job).job], []),
    /** The blocks are of one job. */
    tally: (
      tenant: string, blocks: readonly [TallyBlock, ...TallyBlock[]],
      { recount, attached, keeps }: Attachment & { readonly recount: boolean }
    ) => {
      const [{ job }] = blocks
      const fields = blocks.flatMap(block => tallyArguments(block, recount))
      return tally(tenant, tallyKeys(tenant, job), [
        tenant, job, attached, keeps ? 1 : 0, ...fields,
      ])
    },
    fail: (tenant: string, job: string, { digest, finished }: FailBlock) => {
      const args = namedArguments({ tenant, job, digest, rows: countBits(finished) })
      return fail(tenant, tallyKeys(tenant, job), [args, finished])
    },
    end: (tenant: string, job: string) =>
      endJob(tenant, [jobKeys(tenant, job).job], [tenant, job]),
    close: (
      tenant: string,
      { job, seq = '' }: { readonly job: string, readonly seq?: number | '' | undefined }
    ) => {
      const { job: record, dataKey } = jobKeys(tenant, job)
      return close(tenant, [record, dataKey], [job, seq])
    },
  }
}

function claimKeys (tenant: string, id: string) {
  const { job, dataKey } = jobKeys(tenant, id)
  return [job, dataKey, ...idempotencyKeysOf(tenant)]
}

/** Placeholder of a job without a feed: a hash of cursors that does not exist, and no cursor. */
const NO_FEED: Feed = {
  partner: '', partition: -1, cursor: '', from: -1, to: -1, unitPriceMicros: null,
}

function acceptKeys (tenant: string, { id, feed = NO_FEED }: AcceptRequest) {
  return [...claimKeys(tenant, id), cursorsKeyOf(tenant, feed), moneyKeys(siblingOf(tenant)).wallet]
}

function acceptArguments (tenant: string, request: AcceptRequest): string {
  const { preflight, feed = NO_FEED, events = [], lowBalanceMicros } = request
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
    },
  })
}

function tallyKeys (tenant: string, id: string) {
  return [jobKeys(tenant, id).job, moneyKeys(tenant).recounts]
}

function tallyArguments (block: TallyBlock, recount: boolean): (string | number | Buffer)[] {
  const { finished, cached, live, invalid, unknown, cancelled } = block
  return [
    block.chunk, block.digest, inputsOf(block), block.firstRow,
    finished, cached, live, invalid, unknown, cancelled, packDuplicates(block.duplicates),
    block.replacesLost && !recount ? 1 : 0,
  ]
}

function inputsOf ({ inputs, replacesLost }: TallyBlock): 0 | 1 | 2 {
  if (!inputs) return 0
  return replacesLost ? 2 : 1
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

/** Decodes the reply of `claim`. */
export function claimedOf (reply: readonly string[]): IdempotencyClaim {
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
export function acceptedOf ({ tenant, job }: JobOfTenant, reply: readonly string[]): Accepted {
  const [kind, entry] = reply
  if (kind === 'refused') return { kind, refusal: refusalIn(job, reply) }
  return { kind: 'accepted', job: jobOf(tenant, fieldsOf(reply.slice(2))), entry: entryIn(entry) }
}

/** Decodes the reply of `refuse`: the outcome that was stored before, the refusal, or `open`. */
export function jobOutcomeOf (of: JobOfTenant, reply: readonly string[]): Outcome {
  if (reply[0] === 'open') return { kind: 'open' }
  const outcome = acceptedOf(of, reply)
  const isForgotten = outcome.kind === 'refused' && fieldsOf(reply.slice(1))['forgotten'] === '1'
  return isForgotten ? { ...outcome, forgotten: true } : outcome
}

/** Decodes the reply of `tally` and `fail`. */
export function talliedOf (tenant: string, reply: readonly string[]): Tallied {
  const [kind, ended, entry, ...pairs] = reply
  if (kind === 'skip') return { kind }
  if (kind !== 'counted' && kind !== 'known') throw new Error(`unexpected reply of tally: ${kind}`)
  const fields = fieldsOf(pairs)
  const { manifest } = fields
  return {
    kind,
    ended: ended === '1',
    entry: entryIn(entry),
    job: jobOf(tenant, fields),
    ...manifest !== undefined && { manifest: manifestIn(manifest) },
  }
}

/** Decodes the reply of `cancel`. */
export function cancelledOf (tenant: string, reply: readonly string[]): Cancelled {
  const [kind, ...pairs] = reply
  if (kind === 'unknown') return { kind }
  if (kind !== 'cancelling' && kind !== 'ended') {
    throw new Error(`unexpected reply of cancel: ${kind}`)
  }
  return { kind, job: jobOf(tenant, fieldsOf(pairs)) }
}

const entryIn = (json = '') => json === '' ? undefined : entryOf(json)

function refusalIn (job: string, reply: readonly string[]): Refusal {
  const refusal = refusalOf(job, fieldsOf(reply.slice(1)))
  if (refusal === undefined) throw new Error(`reply for job ${job} lacks a refusal code`)
  return refusal
}
