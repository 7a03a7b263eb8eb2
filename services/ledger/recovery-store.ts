import type { Redis } from 'ioredis'
import { cursorsKeyOf, idempotencyKeyOf, jobKeys } from '../jobs/redis-keys.ts'
import { RETENTION_LUA } from '../jobs/scripts.ts'
import { script } from '../platform/redis.ts'
import type { Amounts } from '../money/arithmetic.ts'
import { GATE_LUA, joinLua, WALLET_LUA } from '../money/lua.ts'
import { entryOf, integer } from '../money/outbox.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import type { OpenJob, WalletSnapshot } from './reconcile.ts'
import type { Rebuilt } from './rebuilt.ts'
import { FENCE_KEY, LEADER_KEY } from './redis-keys.ts'

/** Which ledger acts, for which run of the server: with another one of either nothing is done. */
export type LeaderTerm = { readonly run: string, readonly fence: string }

/** What came of a step of a recovery; `moved`: somebody else acts now, or the server ended. */
export type Step = 'done' | 'moved'

/**
 * `idle`: sound, without a pending entry or an open job. `broken`: it was frozen by this look.
 * `waiting`: it is to be compared first.
 */
export type CheckResult = {
  readonly kind: 'sound' | 'idle' | 'frozen' | 'broken' | 'waiting'
  readonly reason: string
}

const TENANTS_A_ROUND = 500

export type RecoveryStore = ReturnType<typeof createRecoveryStore>

/** What a ledger does to Redis behind the gates, each step in one script and harmless again. */
export function createRecoveryStore (redis: Redis) {
  const scripts = loadScripts(redis)
  return {
    /** Leads, or goes on leading, for the time of the lease; undefined while another does. */
    lead: async (name: string, leaseMs: number) => {
      const [fence = '0', run = ''] =
        await scripts.lead([LEADER_KEY, FENCE_KEY], [name, leaseMs]) as string[]
      return { run, fence: fence === '0' ? undefined : fence }
    },

    /** How many of these tenants are not let in by this run of the server. */
    countWaiting: async (tenants: readonly string[], run: string): Promise<number> => {
      let waiting = 0
      for (let from = 0; from < tenants.length; from += TENANTS_A_ROUND) {
        const runs = await Promise.all(tenants.slice(from, from + TENANTS_A_ROUND)
          .map(tenant => redis.hget(moneyKeys(tenant).wallet, 'run')))
        waiting += runs.filter(letInBy => letInBy !== run).length
      }
      return waiting
    },

    /** A tenant that waits to be let in; undefined for one that is in. */
    snapshotWallet: async (tenant: string, fence: string): Promise<SnapshotAnswer> => {
      const answer = await scripts.snapshotWallet(
        [moneyKeys(tenant).wallet], [fence, jobKeys(tenant, '').job])
      return snapshotOf(tenant, answer as Surveyed)
    },

    /**
     * Lets a tenant in whose last movement is still `seq`; with `restored` its wallet is brought to
     * the journal's end first, with `frozen` it stays closed to new movements.
     */
    unlock: async (tenant: string, term: LeaderTerm, unlock: Unlock): Promise<Step> => {
      const { seq, frozen = '', restored } = unlock
      const more = restored === undefined ? [] : walletArguments(restored)
      const answer = await scripts.unlock(
        [moneyKeys(tenant).wallet],
        [term.run, term.fence, String(seq), frozen, jobKeys(tenant, '').job, ...more])
      return answer === 'unlocked' ? 'done' : 'moved'
    },

    /** Makes a job anew, or tells the one that is there what the journal knows of its end. */
    rebuild: async (term: LeaderTerm, job: Rebuilt): Promise<Step | 'made'> => {
      const answer = await scripts.rebuild(rebuildKeys(job), rebuildArguments(term, job))
      if (answer === 'moved') return 'moved'
      return answer === 'made' ? 'made' : 'done'
    },

    /** Adds a tenant up, and freezes it if the sums are wrong. */
    check: async (tenant: string): Promise<CheckResult> => {
      const [kind, reason = ''] = await scripts.check(
        [moneyKeys(tenant).wallet], [jobKeys(tenant, '').job]) as string[]
      return { kind: kind as CheckResult['kind'], reason }
    },
  }
}

function loadScripts (redis: Redis) {
  const load = (name: string, numberOfKeys: number) => script(redis, {
    name,
    numberOfKeys,
    source: joinLua(GATE_LUA, WALLET_LUA, RETENTION_LUA, new URL(`./${name}.lua`, import.meta.url)),
  })
  return {
    lead: load('lead', 2),
    snapshotWallet: load('snapshot-wallet', 1),
    unlock: load('unlock-wallet', 1),
    rebuild: load('rebuild', 5),
    check: load('check', 1),
  }
}

export type Unlock = {
  /** Number of the last movement that was compared. */
  readonly seq: number
  /** Why nothing may move. */
  readonly frozen?: string
  readonly restored?: { readonly seq: number, readonly amounts: Amounts } | undefined
}

type Surveyed =
  | readonly ['unlocked' | 'fenced']
  | readonly ['waiting', string, string, readonly string[], readonly string[], readonly string[]]

type SnapshotAnswer = WalletSnapshot | 'fenced' | undefined

function snapshotOf (tenant: string, answer: Surveyed): SnapshotAnswer {
  if (answer[0] !== 'waiting') return answer[0] === 'fenced' ? 'fenced' : undefined
  const [, run, trust, [seq, available, reserved, charged, funded], outbox, jobs] = answer
  return {
    tenant,
    run,
    seq: integer(seq),
    amounts: {
      availableMicros: integer(available),
      reservedMicros: integer(reserved),
      chargedMicros: integer(charged),
      fundedMicros: integer(funded),
    },
    outbox: outbox.map(entryOf).toSorted((a, b) => a.seq - b.seq),
    openJobs: openJobsOf(jobs),
    trustsJournal: trust === 'journal',
  }
}

/** Job, time and state, one after another. */
function openJobsOf (flat: readonly string[]): readonly OpenJob[] {
  return Array.from({ length: flat.length / 3 }, (_, index) => {
    const [job = '', sinceMs, state] = flat.slice(3 * index)
    return { job, sinceMs: integer(sinceMs), state: state as OpenJob['state'] }
  })
}

function walletArguments ({ seq, amounts }: NonNullable<Unlock['restored']>): string[] {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  return [seq, availableMicros, reservedMicros, chargedMicros, fundedMicros].map(String)
}

function rebuildKeys ({ tenant, job, idempotencyKey, feed }: Rebuilt): string[] {
  const keys = jobKeys(tenant, job)
  return [
    moneyKeys(tenant).wallet, keys.job, idempotencyKeyOf(tenant, idempotencyKey),
    keys.dataKey, cursorsKeyOf(tenant, feed),
  ]
}

function rebuildArguments ({ run, fence }: LeaderTerm, rebuilt: Rebuilt): string[] {
  const { job, nowMs, idempotencyKey, fingerprint, claimedAt, feed, settled } = rebuilt
  return [
    run, fence, job, String(nowMs), idempotencyKey, fingerprint, claimedAt,
    feed.cursor, feed.to,
    settled === undefined ? '' : String(settled.seq), String(settled?.chargeMicros ?? 0),
    rebuilt.isClosed ? '1' : '0', ...rebuilt.fields,
  ]
}
