import type { Redis } from 'ioredis'
import { count } from '../lib/bitmap.ts'
import { script } from '../lib/redis.ts'
import { WALLET_LUA, joinLua } from '../money/lua.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import { cursorsKeyOf, idempotencyKeyOf, jobKeys, tenantJobKeys } from './redis-keys.ts'
import type { AcceptRequest, ClaimRequest, FailBlock, Feed, TallyBlock } from './steps.ts'

const RECORD_LUA = new URL('./record.lua', import.meta.url)

/** Every script of jobs begins with the movements of money and the shared parts of the record. */
function jobScript (redis: Redis, name: string, numberOfKeys: number) {
  const source = joinLua(WALLET_LUA, RECORD_LUA, new URL(`./${name}.lua`, import.meta.url))
  const call = script(redis, { name, source, numberOfKeys })
  return async (keys: readonly string[], args: readonly (string | number | Buffer)[]) =>
    await call(keys, args) as string[]
}

/** One function a script: which keys it touches, and in which order it takes its arguments. */
export function createJobScripts (redis: Redis) {
  const claim = jobScript(redis, 'claim', 2)
  const accept = jobScript(redis, 'accept', 8)
  const refuse = jobScript(redis, 'refuse', 3)
  const announce = jobScript(redis, 'announce', 1)
  const beginPart = jobScript(redis, 'begin-part', 1)
  const tally = jobScript(redis, 'tally', 7)
  const fail = jobScript(redis, 'fail', 6)
  const close = jobScript(redis, 'close', 4)
  const remember = jobScript(redis, 'remember', 1)
  const cancel = jobScript(redis, 'cancel', 1)
  return {
    claim: (tenant: string, request: ClaimRequest) => {
      const { job, idempotencyKey, fingerprint, acceptWithinMs, quoteOnly = false } = request
      return claim(
        [jobKeys(tenant, job).job, idempotencyKeyOf(tenant, idempotencyKey)],
        [job, idempotencyKey, fingerprint, acceptWithinMs, quoteOnly ? 1 : 0])
    },
    accept: (tenant: string, request: AcceptRequest) =>
      accept(acceptKeys(tenant, request), acceptArguments(tenant, request)),
    refuse: (
      tenant: string,
      { job, code, idempotencyKey }:
      { readonly job: string, readonly code: string, readonly idempotencyKey: string }
    ) => {
      const idem = idempotencyKeyOf(tenant, idempotencyKey)
      return refuse([jobKeys(tenant, job).job, idem, moneyKeys(tenant).outbox], [job, code])
    },
    announce: (tenant: string, job: string) => announce([jobKeys(tenant, job).job], [job]),
    cancel: (tenant: string, job: string) => cancel([jobKeys(tenant, job).job], []),
    beginPart: (tenant: string, job: string) => beginPart([jobKeys(tenant, job).job], []),
    tally: (tenant: string, block: TallyBlock) =>
      tally(tallyKeys(tenant, block.job), tallyArguments(tenant, block)),
    fail: (tenant: string, job: string, { digest, finished }: FailBlock) => {
      const [wallet, outbox, record, , manifest, active, open] = tallyKeys(tenant, job)
      const keys = [wallet, outbox, record, manifest, active, open]
      return fail(keys, [tenant, job, digest, finished, count(finished)])
    },
    close: (tenant: string, job: string) => {
      const keys = jobKeys(tenant, job)
      return close([keys.job, keys.seen, keys.manifest, tenantJobKeys(tenant).open], [job])
    },
    remember: (tenant: string, idempotencyKey: string, body: string) =>
      remember([idempotencyKeyOf(tenant, idempotencyKey)], [body]),
  }
}

/** A job without a feed names a hash of cursors that is nowhere, and no cursor in it. */
const NO_FEED: Feed = {
  partner: '', partition: -1, cursor: '', from: -1, to: -1, unitPriceMicros: null,
}

function acceptKeys (tenant: string, { id, idempotencyKey, feed = NO_FEED }: AcceptRequest) {
  const { wallet, outbox } = moneyKeys(tenant)
  const { active, open } = tenantJobKeys(tenant)
  const { job, dataKey } = jobKeys(tenant, id)
  const idem = idempotencyKeyOf(tenant, idempotencyKey)
  return [wallet, outbox, job, idem, active, open, dataKey, cursorsKeyOf(tenant, feed)]
}

function acceptArguments (tenant: string, request: AcceptRequest): (string | number)[] {
  const { preflight, feed = NO_FEED } = request
  const { cacheHits, freshChecks } = preflight
  return [
    tenant, request.id, request.idempotencyKey, request.acceptByMs,
    request.needsSlot ? 1 : 0, request.maxActiveJobs,
    preflight.maxQuoteMicros, request.unitPriceMicros, cacheHits + freshChecks,
    request.header.toString('base64'), feed.cursor, feed.from, feed.to,
    'service', request.service,
    'lane', request.lane,
    'totalRows', preflight.totalRows,
    'invalidRows', preflight.invalidRows,
    'duplicateRows', preflight.duplicateRows,
    'quotedHits', cacheHits,
    'quotedFresh', freshChecks,
    'quoteId', preflight.quoteId,
    'chunks', request.chunks,
    'forceFresh', request.forceFresh ? 1 : 0,
    'createdAtMs', request.createdAtMs,
    ...feed.partner === '' ? [] : ['feed', `${feed.partner}:${feed.partition}`],
  ]
}

function tallyKeys (tenant: string, id: string) {
  const { wallet, outbox } = moneyKeys(tenant)
  const { active, open } = tenantJobKeys(tenant)
  const { job, seen, manifest } = jobKeys(tenant, id)
  return [wallet, outbox, job, seen, manifest, active, open] as const
}

function tallyArguments (tenant: string, block: TallyBlock): (string | number | Buffer)[] {
  const { finished, billable, succeeded, failed, cached, live } = block
  return [
    tenant, block.job, block.chunk, block.digest, inputsOf(block), block.firstRow,
    finished, billable, succeeded, failed, cached, live, packCopies(block.copies),
  ]
}

function inputsOf ({ inputs, blank = false }: TallyBlock): 0 | 1 | 2 {
  if (!inputs) return 0
  return blank ? 2 : 1
}

/** Pairs of big-endian 32-bit numbers: row, number of copies. */
function packCopies (copies: TallyBlock['copies']): Buffer {
  const packed = Buffer.alloc(copies.length * 8)
  for (const [index, original] of copies.entries()) {
    packed.writeUInt32BE(original.row, index * 8)
    packed.writeUInt32BE(original.copies, index * 8 + 4)
  }
  return packed
}
