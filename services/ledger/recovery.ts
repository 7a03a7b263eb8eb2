import type { Redis } from 'ioredis'
import type { Clock } from '../lib/clock.ts'
import type { Log } from '../lib/log.ts'
import type { Metrics } from '../lib/metrics.ts'
import type { Sleep } from '../lib/retry.ts'
import { moneyKeys, REPLAYING_KEY } from '../money/redis-keys.ts'
import type { Tenants } from '../money/tenants.ts'
import type { Desk, Mandate, Step } from './desk.ts'
import { readJournal, type JournalParts } from './journal.ts'
import { emptyFold, withHeld, type Fold, type Interest } from './journal-fold.ts'
import { interestOf, judge, type Standing, type Verdict } from './judge.ts'
import { rebuildJobs, type RebuildParts } from './rebuild-jobs.ts'
import { mendKeys, type Lacking, type MendKeysParts } from './restore-keys.ts'

export type RecoveryParts = JournalParts & RebuildParts & MendKeysParts & {
  readonly redis: Pick<Redis, 'sadd' | 'hset' | 'hsetnx'>
  readonly tenants: Pick<Tenants, 'all' | 'active' | 'activate' | 'deactivate'>
  readonly desk: Pick<Desk, 'survey' | 'bless' | 'rebuild'>
  /** Redis time. */
  readonly clock: Clock
  readonly sleep: Sleep
  readonly log: Pick<Log, 'info' | 'warn' | 'error'>
  readonly metrics: Pick<Metrics, 'count'>
  /** After a restart of Redis the journal is read once more so much later. */
  readonly graceMs: number
}

type Compared = { readonly standing: Standing, readonly fold: Fold, readonly verdict: Verdict }

/**
 * Compares every tenant that is not let in with the journal, brings what Redis lacks, and lets it
 * in: the one way in for a tenant with a past. Each step may be repeated, and letting in is the
 * last one, so a crash anywhere leaves a tenant that waits for the next recovery. Returns every
 * tenant that the journal has entries of or that was compared.
 * @throws InfrastructureError when Redis, Kafka or the archive cannot be read.
 */
export async function recover (
  parts: RecoveryParts, fence: string, signal: AbortSignal
): Promise<ReadonlySet<string>> {
  const first = await compareAll(parts, fence, signal)
  // What Redis has lost may still be on its way to the journal, sent by whoever had its answer, and
  // may be all that it has lost.
  const someWait = first.compared.length > 0
  // What comes back from a backup may have open jobs and no mark.
  await parts.tenants.activate(first.compared.map(({ standing }) => standing.tenant))
  if (someWait) await parts.sleep(parts.graceMs, signal)
  const { compared, known } = someWait ? await compareAll(parts, fence, signal) : first
  const run = compared[0]?.standing.run
  await mendKeys(parts, { run, lacking: lackingOf(compared) }, signal)
  for (const one of compared) {
    signal.throwIfAborted()
    await letIn(parts, { run: one.standing.run, fence }, one)
  }
  return known
}

/** Jobs of whose data keys Redis may have nothing. */
function lackingOf (compared: readonly Compared[]): ReadonlyMap<string, Lacking> {
  return new Map(compared.filter(({ verdict }) => verdict.behind).flatMap(({ standing, fold }) =>
    [...fold.missed].map(([job, atMs]) => [job, { tenant: standing.tenant, atMs }] as const)))
}

const isBegun = ({ seq, openJobs }: Standing) => seq > 0 || openJobs.length > 0

type Comparison = {
  readonly compared: readonly Compared[]
  readonly known: ReadonlySet<string>
}

async function compareAll (
  parts: RecoveryParts, fence: string, signal: AbortSignal
): Promise<Comparison> {
  const standings = await surveyAll(parts, fence, await parts.tenants.all())
  const interest = (tenant: string): Interest => {
    const standing = standings.get(tenant)
    return standing === undefined ? { seq: 0, openJobs: new Set() } : interestOf(standing)
  }
  const folds = await readJournal(parts, { interestOf: interest, signal })
  const forgotten = [...folds.keys()].filter(tenant => !standings.has(tenant))
  if (forgotten.length > 0) {
    await parts.tenants.activate(forgotten)
    const late = await surveyAll(parts, fence, forgotten)
    // Their entries were taken as if Redis had nothing of them.
    if ([...late.values()].some(isBegun)) return await compareAll(parts, fence, signal)
    for (const [tenant, standing] of late) standings.set(tenant, standing)
  }
  const compared = [...standings.values()].map((standing): Compared => {
    const of = interestOf(standing)
    const fold = folds.get(standing.tenant) ?? emptyFold(of)
    return { standing, fold, verdict: judge(standing, fold, of) }
  })
  return { compared, known: new Set([...folds.keys(), ...standings.keys()]) }
}

/** Those that wait; a tenant that is let in, or that a later ledger has taken over, is not. */
async function surveyAll (
  { desk }: RecoveryParts, fence: string, tenants: readonly string[]
): Promise<Map<string, Standing>> {
  const found = new Map<string, Standing>()
  for (const tenant of tenants) {
    const standing = await desk.survey(tenant, fence)
    if (standing !== undefined && standing !== 'fenced') found.set(tenant, standing)
  }
  return found
}

async function letIn (parts: RecoveryParts, mandate: Mandate, one: Compared): Promise<void> {
  const { tenant } = one.standing
  const { faults, missing } = one.verdict
  if (missing.length > 0) await writeMissing(parts, one)
  // Of a frozen tenant no money moves, and the rows of its jobs are finished all the same: whoever
  // finds no job drops them.
  const rebuilt = await rebuildJobs(parts, mandate, withHeld(one.fold))
  if (rebuilt.kind === 'moved') return
  const all = rebuilt.kind === 'faulty' ? [...faults, ...rebuilt.faults] : faults
  if (rebuilt.kind === 'faulty' || all.length > 0) {
    return await freeze(parts, mandate, { ...one, verdict: { ...one.verdict, faults: all } })
  }
  const step = await restore(parts, mandate, { ...one, since: rebuilt.since })
  if (step === 'moved') return
  parts.metrics.count('recovered_total', { what: 'tenant' })
  const { seq } = one.standing
  const details = { tenant, seq, journal: one.fold.seq, jobsMade: rebuilt.made }
  if (one.verdict.behind) parts.log.warn(details, 'a wallet was brought to the end of the journal')
  else parts.log.info(details, 'a tenant was let in')
}

/** Without them every later comparison would find the gap once more. */
async function writeMissing (
  { emitter, log }: RecoveryParts, { standing: { tenant }, verdict: { missing } }: Compared
): Promise<void> {
  log.warn({ tenant, seqs: missing.map(({ seq }) => seq) }, 'entries the journal lacked are told')
  await emitter.emit(missing.map(value =>
    ({ topic: 'wallet.journal', lane: 'small', value, rows: undefined })))
}

async function restore (
  { redis, desk }: RecoveryParts, mandate: Mandate,
  { standing, fold, verdict, since }: Compared & { readonly since: ReadonlyMap<string, number> }
): Promise<Step> {
  const { tenant, seq } = standing
  const { posted, replay } = moneyKeys(tenant)
  for (const [id, what] of fold.posted) await redis.hsetnx(posted, id, what)
  // Whatever was counted of a running job may be lost as well: its blocks are counted again.
  if (since.size > 0) {
    await redis.sadd(REPLAYING_KEY, tenant)
    await redis.hset(replay, Object.fromEntries(since))
  }
  const restored = verdict.behind ? { seq: fold.seq, amounts: fold.amounts } : undefined
  return await desk.bless(tenant, mandate, { seq, restored })
}

async function freeze (
  { desk, log, metrics }: RecoveryParts, mandate: Mandate, { standing, verdict }: Compared
): Promise<void> {
  const { tenant, seq } = standing
  const frozen = verdict.faults.join('; ').slice(0, 1_000)
  if (await desk.bless(tenant, mandate, { seq, frozen }) === 'moved') return
  metrics.count('recovered_total', { what: 'frozen' })
  log.error({ tenant, faults: verdict.faults }, 'the wallet of a tenant is frozen')
}
