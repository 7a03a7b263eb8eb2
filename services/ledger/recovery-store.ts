import type { Redis } from 'ioredis'
import { cursorsKeyOf, idempotencyKeysOf, jobKeys } from '../jobs/redis-keys.ts'
import { STATE_LUA } from '../jobs/scripts.ts'
import { script } from '../platform/redis.ts'
import type { Amounts } from '../money/prices.ts'
import { GUARD_LUA, joinLua, WALLET_LUA } from '../money/lua.ts'
import { entryOf, integer } from '../money/outbox.ts'
import { moneyKeys } from '../money/redis-keys.ts'
import type { JobInRedis, WalletSnapshot } from './reconcile.ts'
import type { RebuiltJob } from './rebuilt-job.ts'
import { FENCE_KEY, LEADER_KEY } from './redis-keys.ts'

/** The fencing token of the leader, for one run of the server; a script checks both. */
export type LeaderTerm = { readonly run: string, readonly fence: string }

/** Result of a recovery step; `superseded`: another leader or another run of the server. */
export type Step = 'done' | 'superseded'

/**
 * `idle`: ok, without pending entries and open jobs. `inconsistent`: this check froze the wallet.
 * `waiting`: the wallet is locked.
 */
export type WalletCheck = {
  readonly kind: 'ok' | 'idle' | 'frozen' | 'inconsistent' | 'waiting'
  readonly reason: string
}

const TENANTS_PER_BATCH = 500

export type RecoveryStore = ReturnType<typeof createRecoveryStore>

/** The Redis steps of a recovery; each is one idempotent script. */
export function createRecoveryStore (redis: Redis) {
  const scripts = loadScripts(redis)
  return {
    /** Acquires or renews the leadership; `fence` is undefined while another ledger leads. */
    lead: async (name: string, leaseMs: number) => {
      const [fence = '0', run = ''] =
        await scripts.lead([LEADER_KEY, FENCE_KEY], [name, leaseMs]) as string[]
      return { run, fence: fence === '0' ? undefined : fence }
    },

    /** Counts the tenants that are not unlocked for this run of the server. */
    countWaiting: async (tenants: readonly string[], run: string): Promise<number> => {
      let waiting = 0
      for (let from = 0; from < tenants.length; from += TENANTS_PER_BATCH) {
        const runs = await Promise.all(tenants.slice(from, from + TENANTS_PER_BATCH)
          .map(tenant => redis.hget(moneyKeys(tenant).wallet, 'run')))
        waiting += runs.filter(unlockedFor => unlockedFor !== run).length
      }
      return waiting
    },

    /** The wallet of a locked tenant; undefined if it is unlocked. */
    snapshotWallet: async (tenant: string, fence: string): Promise<SnapshotResult> => {
      const answer = await scripts.snapshotWallet(
        [moneyKeys(tenant).wallet], [fence, jobKeys(tenant, '').job])
      return walletSnapshotOf(tenant, answer as SnapshotReply)
    },

    /**
     * Unlocks a wallet if its last movement is still `seq`. `restored` replaces its seq and amounts
     * by those of the journal, `frozen` freezes it.
     */
    unlock: async (tenant: string, term: LeaderTerm, unlock: Unlock): Promise<Step> => {
      const { seq, frozen = '', restored } = unlock
      const more = restored === undefined ? [] : walletArguments(restored)
      const answer = await scripts.unlock(
        [moneyKeys(tenant).wallet],
        [term.run, term.fence, String(seq), frozen, jobKeys(tenant, '').job, ...more])
      return answer === 'unlocked' ? 'done' : 'superseded'
    },

    /** Rebuilds a job, or updates an existing one with its end from the journal. */
    rebuild: async (term: LeaderTerm, job: RebuiltJob): Promise<Step | 'made'> => {
      const answer = await scripts.rebuild(rebuildKeys(job), rebuildArguments(term, job))
      if (answer === 'superseded') return 'superseded'
      return answer === 'made' ? 'made' : 'done'
    },

    /** Checks the sums of a wallet, and freezes it if they are wrong. */
    check: async (tenant: string): Promise<WalletCheck> => {
      const [kind, reason = ''] = await scripts.check(
        [moneyKeys(tenant).wallet], [jobKeys(tenant, '').job]) as string[]
      return { kind: kind as WalletCheck['kind'], reason }
    },
  }
}

function loadScripts (redis: Redis) {
  const load = (name: string, numberOfKeys: number) => script(redis, {
    name,
    numberOfKeys,
    source: joinLua(
      GUARD_LUA, WALLET_LUA, ...STATE_LUA, new URL(`./${name}.lua`, import.meta.url)),
  })
  return {
    lead: load('lead', 2),
    snapshotWallet: load('snapshot-wallet', 1),
    unlock: load('unlock-wallet', 1),
    rebuild: load('rebuild', 6),
    check: load('check', 1),
  }
}

export type Unlock = {
  /** Seq of the last movement that was compared. */
  readonly seq: number
  /** Why the wallet is frozen. */
  readonly frozen?: string
  readonly restored?: { readonly seq: number, readonly amounts: Amounts } | undefined
}

type SnapshotReply =
  | readonly ['unlocked' | 'fenced']
  | readonly ['waiting', string, string, readonly string[], readonly string[], readonly string[]]

type SnapshotResult = WalletSnapshot | 'fenced' | undefined

function walletSnapshotOf (tenant: string, answer: SnapshotReply): SnapshotResult {
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

/** Parses a flat list of job, time and state. */
function openJobsOf (flat: readonly string[]): readonly JobInRedis[] {
  return Array.from({ length: flat.length / 3 }, (_, index) => {
    const [job = '', sinceMs, state] = flat.slice(3 * index)
    return { job, sinceMs: integer(sinceMs), state: state as JobInRedis['state'] }
  })
}

function walletArguments ({ seq, amounts }: NonNullable<Unlock['restored']>): string[] {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  return [seq, availableMicros, reservedMicros, chargedMicros, fundedMicros].map(String)
}

function rebuildKeys ({ tenant, job, feed }: RebuiltJob): string[] {
  const keys = jobKeys(tenant, job)
  return [
    moneyKeys(tenant).wallet, keys.job, keys.dataKey, ...idempotencyKeysOf(tenant),
    cursorsKeyOf(tenant, feed),
  ]
}

function rebuildArguments ({ run, fence }: LeaderTerm, rebuilt: RebuiltJob): string[] {
  const { job, nowMs, idempotencyKey, fingerprint, claimedAt, feed, settled } = rebuilt
  return [
    run, fence, job, String(nowMs), idempotencyKey, fingerprint, claimedAt,
    feed.cursor, feed.to,
    settled === undefined ? '' : String(settled.seq), String(settled?.chargeMicros ?? 0),
    rebuilt.isClosed ? '1' : '0', ...rebuilt.fields,
  ]
}
