import type { Redis } from 'ioredis'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import { sleep } from '../lib/retry.ts'
import type { Tenants } from '../money/tenants.ts'
import type { JournalCopy } from '../records/journal-copy.ts'
import type { HeadsCodec, JournalHeads } from '../records/journal-heads.ts'
import type { HeadTarget } from './head-target.ts'
import { EXPORTED_KEY } from './redis-keys.ts'

export type ExportParts = {
  readonly journal: Pick<JournalCopy, 'heads'>
  readonly tenants: Pick<Tenants, 'all'>
  readonly redis: Pick<Redis, 'get' | 'set'>
  /** Whether this ledger leads: of several, one exports. */
  readonly leads: () => boolean
  readonly codec: Pick<HeadsCodec, 'encode'>
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
const TENANTS_A_QUERY = 500

/**
 * Exports the heads of all tenants' chains when the last export is `everyMs` ago, so that a
 * deleted end of the journal is noticed by comparing it with an export. Redis keeps when that was.
 * An export that fails is logged and tried again within a minute.
 */
export function startExporting (parts: ExportParts): { readonly stop: () => Promise<void> } {
  const stopping = new AbortController()
  const { signal } = stopping
  let exportedAtMs: number | undefined
  parts.metrics.watchAll('journal_head_age_intervals', async () =>
    !parts.leads() || exportedAtMs === undefined
      ? []
      : [{ labels: {}, value: (parts.clock.now() - exportedAtMs) / parts.everyMs }])
  const go = async () => {
    while (!signal.aborted) {
      try {
        if (parts.leads()) exportedAtMs = Number(await parts.redis.get(EXPORTED_KEY))
        if (parts.leads()) exportedAtMs = await exportIfDue(parts, exportedAtMs ?? 0, signal)
      } catch (error) {
        if (signal.aborted) return
        parts.log.error({ err: error }, 'the journal head was not exported: see that what ' +
          'JOURNAL_HEAD_TARGET names can be written to; it is tried again within a minute')
      }
      await sleep(Math.min(parts.everyMs, MAX_PAUSE_MS), signal).catch(() => {})
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

/** Returns when the last export was, in Unix ms. A crash after it makes it come twice. */
async function exportIfDue (
  parts: ExportParts, exportedAtMs: number, signal: AbortSignal
): Promise<number> {
  const { clock, codec, target, redis, log, everyMs } = parts
  const at = clock.now()
  if (at - exportedAtMs < everyMs) return exportedAtMs
  const heads = await readHeads(parts, at)
  await target(codec.encode(heads), signal)
  await redis.set(EXPORTED_KEY, at)
  log.info({ tenants: heads.tenants.length }, 'journal head exported')
  return at
}

/** All heads are in memory at once: some 200 bytes a tenant, so 4 MB for 20,000 of them. */
async function readHeads ({ journal, tenants }: ExportParts, at: number): Promise<JournalHeads> {
  const known = (await tenants.all()).toSorted()
  const exported: JournalHeads['tenants'][number][] = []
  for (let from = 0; from < known.length; from += TENANTS_A_QUERY) {
    const heads = await journal.heads(known.slice(from, from + TENANTS_A_QUERY))
    for (const [tenant, { seq, hash }] of heads) exported.push({ tenant, seq, hash })
  }
  return { at, tenants: exported }
}
