import { open } from 'node:fs/promises'
import { ACCESS_CHAIN, type AccessCopy, readAccessHead } from '../accounts/access-log/copy.ts'
import {
  CHAIN_START, type ChainHead, type HeadsCodec, type JournalCopy, type JournalHeads,
} from '../money/journal.ts'
import type { Tenants } from '../money/wallet.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import { type Clock, startRepeating } from '../runtime/platform/retry.ts'
import { InfrastructureError } from '../runtime/platform/errors.ts'
import type { Log } from '../runtime/platform/log.ts'
import type { Metrics } from '../runtime/platform/metrics.ts'
import { EXPORTED_KEY } from '../money/redis-keys.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

export type ExportDeps = {
  readonly journal: JournalCopy
  readonly accessCopy: AccessCopy
  readonly tenants: Tenants
  readonly redis: RedisClient
  /** Only the leading ledger exports. */
  readonly isLeader: () => boolean
  readonly codec: HeadsCodec
  readonly target: HeadTarget
  /** Redis time. */
  readonly clock: Clock
  readonly log: Log
  readonly metrics: Metrics
  /** Time between two exports. */
  readonly everyMs: number
}

/** Maximum pause between two checks whether an export is due. */
const MAX_PAUSE_MS = 60_000
const TENANTS_PER_BATCH = 200

/**
 * Exports the heads of all tenants' chains, and of the access log, every `everyMs`. Comparing the
 * journal with an export detects a deleted tail. Each export continues from the last one, which
 * Redis keeps, so no entry is read twice. A chain that lacked entries is read from its beginning,
 * as they may have arrived since. An export that fails is logged and retried within a minute.
 */
export function startHeadExport (deps: ExportDeps): { readonly stop: () => Promise<void> } {
  let last: JournalHeads | undefined
  deps.metrics.watchAll('journal_head_age_intervals', async () =>
    !deps.isLeader() || last === undefined
      ? []
      : [{ labels: {}, value: (deps.clock.now() - last.at) / deps.everyMs }])
  const exportHeads = async (signal: AbortSignal) => {
    // If the last export is not authentic, the next one starts with the first entries.
    if (deps.isLeader()) last = deps.codec.decode(await deps.redis.get(EXPORTED_KEY) ?? '') ?? NONE
    if (deps.isLeader()) last = await exportIfDue(deps, last ?? NONE, signal)
  }
  return startRepeating(Math.min(deps.everyMs, MAX_PAUSE_MS), exportHeads, err => {
    deps.log.error({ err }, 'journal heads not exported, retrying within a minute: check ' +
      'JOURNAL_HEAD_TARGET, Redis and ClickHouse')
  })
}

const NONE: JournalHeads = { at: 0, tenants: [] }

/** Returns the last export. A crash may repeat it. */
async function exportIfDue (
  deps: ExportDeps, last: JournalHeads, signal: AbortSignal
): Promise<JournalHeads> {
  const { clock, codec, target, redis, log, everyMs } = deps
  const at = clock.now()
  if (at - last.at < everyMs) return last
  const heads = { at, tenants: await continueHeads(deps, last) }
  const text = codec.encode(heads)
  await target(text, signal)
  await redis.set(EXPORTED_KEY, text)
  log.info({ tenants: heads.tenants.length }, 'journal head exported')
  return heads
}

/** Holds all heads in memory: about 200 bytes per tenant, so 4 MB for 20,000 tenants. */
async function continueHeads (
  { journal, accessCopy, tenants }: ExportDeps, last: JournalHeads
): Promise<JournalHeads['tenants']> {
  const complete = last.tenants.filter(({ missing }) => missing.length === 0)
  const lastByTenant = new Map<string, ChainHead>(complete.map(head => [head.tenant, head]))
  const names = (await tenants.all()).toSorted()
  const exported: JournalHeads['tenants'][number][] = []
  for (const some of splitBatches(names, TENANTS_PER_BATCH)) {
    const from = some.map(tenant => [tenant, lastByTenant.get(tenant) ?? CHAIN_START] as const)
    const heads = await journal.heads(new Map(from))
    for (const [tenant, head] of heads) exported.push({ ...head, tenant })
  }
  const accessHead = await readAccessHead(accessCopy, lastByTenant.get(ACCESS_CHAIN) ?? CHAIN_START)
  return accessHead.seq === 0 ? exported : [...exported, { ...accessHead, tenant: ACCESS_CHAIN }]
}

/** Stores a line of text; rejects unless it is stored durably. */
type HeadTarget = (line: string, signal: AbortSignal) => Promise<void>

const TIMEOUT_MS = 30_000

/** Creates a target: appends to the file at an absolute path, or sends POST requests to a URL. */
export function createHeadTarget (target: string): HeadTarget {
  return target.startsWith('/')
    ? line => append(target, line)
    : (line, signal) => post(target, line, signal)
}

/** Appends a line to a file; resolves when it is on disk. */
async function append (path: string, line: string): Promise<void> {
  const file = await open(path, 'a+')
  try {
    const { size } = await file.stat()
    const { buffer } = await file.read(Buffer.alloc(1), 0, 1, Math.max(size - 1, 0))
    // A line that a crash has cut must not corrupt the next one.
    const isCut = size > 0 && buffer.toString() !== '\n'
    await file.appendFile(`${isCut ? '\n' : ''}${line}\n`)
    await file.sync()
  } finally {
    await file.close()
  }
}

async function post (url: string, body: string, signal: AbortSignal): Promise<void> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body,
    redirect: 'error',
    signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
  })
  await response.body?.cancel()
  if (response.ok) return
  throw new InfrastructureError(`JOURNAL_HEAD_TARGET responded with status ${response.status}: ` +
    'check its URL and write permission')
}
