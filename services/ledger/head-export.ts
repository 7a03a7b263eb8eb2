import type { Redis } from 'ioredis'
import type { Clock } from '../platform/clock.ts'
import type { Log } from '../platform/log.ts'
import type { Metrics } from '../platform/metrics.ts'
import { sleep } from '../platform/retry.ts'
import type { Tenants } from '../money/tenants.ts'
import type { JournalCopy } from '../money/journal-copy.ts'
import { START, type ChainHead } from '../money/journal-chain.ts'
import type { HeadsCodec, JournalHeads } from '../money/journal-heads.ts'
import type { HeadTarget } from './head-target.ts'
import { EXPORTED_KEY } from './redis-keys.ts'

export type ExportDeps = {
  readonly journal: Pick<JournalCopy, 'heads'>
  readonly tenants: Pick<Tenants, 'all'>
  readonly redis: Pick<Redis, 'get' | 'set'>
  /** Whether this ledger leads: of several, one exports. */
  readonly leads: () => boolean
  readonly codec: HeadsCodec
  readonly target: HeadTarget
  /** Redis time. */
  readonly clock: Clock
  readonly log: Pick<Log, 'info' | 'error'>
  readonly metrics: Pick<Metrics, 'watchAll'>
  /** Time between two exports. */
  readonly everyMs: number
}

/** Longest pause until it is looked again whether an export is due. */
const MAX_PAUSE_MS = 60_000
const TENANTS_A_QUERY = 200

/**
 * Exports the heads of all tenants' chains when the last export is `everyMs` ago, so that a
 * deleted end of the journal is noticed by comparing it with an export. Redis keeps the last one,
 * from which the next one continues, so no entry is read twice. A chain that lacked entries is read
 * from its beginning, as they may have come since then.
 * An export that fails is logged and tried again within a minute.
 */
export function startExporting (deps: ExportDeps): { readonly stop: () => Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  let last: JournalHeads | undefined
  deps.metrics.watchAll('journal_head_age_intervals', async () =>
    !deps.leads() || last === undefined
      ? []
      : [{ labels: {}, value: (deps.clock.now() - last.at) / deps.everyMs }])
  const go = async () => {
    while (!signal.aborted) {
      try {
        if (deps.leads()) last = await readLast(deps)
        if (deps.leads()) last = await exportIfDue(deps, last ?? NONE, signal)
      } catch (error) {
        if (signal.aborted) return
        deps.log.error({ err: error }, 'the journal head was not exported: see that what ' +
          'JOURNAL_HEAD_TARGET names can be written to; it is tried again within a minute')
      }
      await sleep(Math.min(deps.everyMs, MAX_PAUSE_MS), signal).catch(() => {})
    }
  }
  const ended = go()
  return {
    stop: async () => {
      stopping.abort()
      await ended
    },
  }
}

const NONE: JournalHeads = { at: 0, tenants: [] }

/** What is not authentic is as if it was lost: the next export begins with the first entries. */
async function readLast ({ redis, codec }: ExportDeps): Promise<JournalHeads> {
  return codec.decode(await redis.get(EXPORTED_KEY) ?? '') ?? NONE
}

/** Returns the last export. A crash after it makes it come twice. */
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

/** All heads are in memory at once: some 200 bytes a tenant, so 4 MB for 20,000 of them. */
async function continueHeads (
  { journal, tenants }: ExportDeps, last: JournalHeads
): Promise<JournalHeads['tenants']> {
  const whole = last.tenants.filter(({ missing }) => missing.length === 0)
  const lastOf = new Map<string, ChainHead>(whole.map(head => [head.tenant, head]))
  const known = (await tenants.all()).toSorted()
  const exported: JournalHeads['tenants'][number][] = []
  for (let from = 0; from < known.length; from += TENANTS_A_QUERY) {
    const some = known.slice(from, from + TENANTS_A_QUERY)
    const heads = await journal.heads(new Map(some.map(one => [one, lastOf.get(one) ?? START])))
    for (const [tenant, head] of heads) exported.push({ ...head, tenant })
  }
  return exported
}
