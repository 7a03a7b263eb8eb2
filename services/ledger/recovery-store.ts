import { Cluster } from 'ioredis'
import type { Journal } from '../../schemas/types.ts'
import { cursorsKey, toFields, toIdempotencyKeys, jobRedisKeys } from '../jobs/job-record.ts'
import { STATE_LUA } from '../jobs/store.ts'
import { splitBatches } from '../runtime/platform/batch-writes.ts'
import {
  joinLua, namedArguments, type RedisClient, script, listServers,
} from '../runtime/platform/redis.ts'
import { isInfrastructure } from '../runtime/platform/errors.ts'
import type { Amounts } from '../money/prices.ts'
import { parseEntry, GUARD_LUA, integer, WALLET_LUA } from '../money/wallet.ts'
import { FENCE_KEY, LEADER_KEY, moneyKeys } from '../money/redis-keys.ts'

/** The fencing token of the leader, for one run of a server; a script checks both. */
export type LeaderTerm = { readonly run: string, readonly fence: string }

/** Result of a recovery step; `superseded`: another leader or another run of the server. */
export type Step = 'done' | 'superseded'

/**
 * `idle`: ok, without pending entries and open jobs. `inconsistent`: this check froze the wallet.
 * `waiting`: the wallet is locked, or its server does not respond.
 */
export type WalletCheck = {
  readonly kind: 'ok' | 'idle' | 'frozen' | 'inconsistent' | 'waiting'
  readonly reason: string
}

/** The locked wallet of a tenant in Redis. */
export type LockedWallet = {
  readonly tenant: string
  /** The run id of the server that replied. */
  readonly run: string
  readonly seq: number
  readonly amounts: Amounts
  readonly outbox: readonly Journal[]
  readonly openJobs: readonly JobInRedis[]
  /** True when an operator has decided that the journal replaces the state of Redis. */
  readonly trustsJournal: boolean
}

/**
 * A job that is open in Redis. `settled`: its last movement was made; `ended`: all its rows were
 * counted as well; `gone`: its record is lost.
 */
type JobInRedis = {
  readonly job: string
  readonly sinceMs: number
  readonly state: 'running' | 'settled' | 'ended' | 'gone'
}

/** A job as `rebuild.lua` writes it to Redis. */
export type RebuiltJob = {
  readonly tenant: string
  readonly job: string
  readonly nowMs: number
  /** Empty when the request had none, or it has expired. */
  readonly idempotencyKey: string
  readonly fingerprint: string
  readonly claimedAt: string
  /** `cursor` is empty unless the job is of a feed. */
  readonly feed: {
    readonly partner: string
    readonly partition: number
    readonly cursor: string
    readonly to: string
  }
  /** The entry that settled the job, if any. */
  readonly settled: { readonly seq: number, readonly chargeMicros: number } | undefined
  readonly isClosed: boolean
  /** Fields and values of the record, alternating. */
  readonly fields: readonly string[]
}

const TENANTS_PER_BATCH = 500

export type RecoveryStore = ReturnType<typeof createRecoveryStore>

/**
 * The Redis steps of a recovery; each is one idempotent script. A server of a cluster that does not
 * respond must not delay the tenants of the others, so its tenants are `unreachable`.
 */
export function createRecoveryStore (redis: RedisClient) {
  const scripts = loadScripts(redis)
  const reach = reachIn(redis)
  let highestFence = 0
  return {
    ...createSteps(scripts),

    /**
     * Acquires or renews the leadership; `fence` is undefined while another ledger leads. `run` is
     * the run id of the server with the global keys, `runs` those of all servers that respond.
     */
    lead: async (name: string, leaseMs: number) => {
      const [fence = '0', run = ''] = await scripts.lead(
        [LEADER_KEY, FENCE_KEY], [name, leaseMs, highestFence]) as string[]
      const runs = redis instanceof Cluster
        ? (await listServers(redis)).map(server => server.run)
        : []
      return { run, fence: fence === '0' ? undefined : fence, runs: new Set([run, ...runs]) }
    },

    /** The servers that respond. */
    servers: () => listServers(redis),

    /** Counts the tenants that are not unlocked for one of these runs of servers. */
    countWaiting: async (
      tenants: readonly string[], runs: ReadonlySet<string>
    ): Promise<number> => {
      let waiting = 0
      for (const batch of splitBatches(tenants, TENANTS_PER_BATCH)) {
        const unlockedIn = await Promise.all(batch.map(tenant =>
          reach(() => redis.hget(moneyKeys(tenant).wallet, 'run'))))
        waiting += unlockedIn.filter(run => run === null || !runs.has(run)).length
      }
      return waiting
    },

    /** The wallet of a locked tenant; undefined if it is unlocked. */
    fenceWallet: async (tenant: string, fence: string): Promise<FenceResult> => {
      const answer = await reach(() => scripts.fenceWallet(
        [moneyKeys(tenant).wallet], [fence, jobRedisKeys(tenant, '').job]))
      if (answer === 'unreachable') return answer
      const [kind, other] = answer as FenceReply
      // The next renewal takes a higher token, if this ledger still leads.
      if (kind === 'fenced') highestFence = Math.max(highestFence, Number(other))
      return parseLockedWallet(tenant, answer as FenceReply)
    },

    /** Whether the server of one of the tenants responds; scripts may fail on it all the same. */
    isAnyResponding: async (tenants: readonly string[]): Promise<boolean> => {
      const servers = await listServers(redis)
      return tenants.some(tenant => servers.some(({ has }) => has(moneyKeys(tenant).wallet)))
    },

    /** Checks the sums of a wallet, and freezes it if they are wrong. */
    check: async (tenant: string): Promise<WalletCheck> => {
      const answer = await reach(() => scripts.check(
        [moneyKeys(tenant).wallet], [jobRedisKeys(tenant, '').job]))
      if (answer === 'unreachable') return { kind: 'waiting', reason: '' }
      const [kind, reason = ''] = answer as string[]
      return { kind: kind as WalletCheck['kind'], reason }
    },
  }
}

/** The writes of a recovery. */
function createSteps (scripts: ReturnType<typeof loadScripts>) {
  return {
    /**
     * Unlocks a wallet if its last movement is still `seq`. `restored` replaces its seq and amounts
     * by those of the journal, `frozen` freezes it.
     */
    unlock: async (tenant: string, term: LeaderTerm, unlock: Unlock): Promise<Step> => {
      const { seq, frozen = '', restored, dropped = [], trusts = false } = unlock
      const answer = await scripts.unlock([moneyKeys(tenant).wallet], [namedArguments({
        ...term,
        seq,
        frozen,
        trusts,
        jobPrefix: jobRedisKeys(tenant, '').job,
        restored: restored === undefined ? {} : walletFields(restored),
        dropped,
      })])
      return answer === 'unlocked' ? 'done' : 'superseded'
    },

    /** Rebuilds a job, or updates an existing one with its end from the journal. */
    rebuild: async (term: LeaderTerm, job: RebuiltJob): Promise<Step | 'made'> => {
      const { wallet } = moneyKeys(job.tenant)
      const { job: record, dataKey } = jobRedisKeys(job.tenant, job.job)
      const answer = await scripts.rebuild([
        wallet, record, dataKey, ...toIdempotencyKeys(job.tenant),
        cursorsKey(job.tenant, job.feed),
      ], [rebuildArguments(term, job)])
      if (answer === 'superseded') return 'superseded'
      return answer === 'made' ? 'made' : 'done'
    },
  }
}

/** Runs a command; `unreachable` if a server of a cluster cannot execute it now. */
function reachIn (redis: RedisClient) {
  return async <T>(command: () => Promise<T>): Promise<T | 'unreachable'> => {
    try {
      return await command()
    } catch (error) {
      if (redis instanceof Cluster && isInfrastructure(error)) return 'unreachable'
      throw error
    }
  }
}

function loadScripts (redis: RedisClient) {
  const load = (name: string, numberOfKeys: number, more: readonly URL[] = []) => script(redis, {
    name,
    numberOfKeys,
    source: joinLua(GUARD_LUA, WALLET_LUA, ...more, new URL(`./${name}.lua`, import.meta.url)),
  })
  return {
    lead: load('lead', 2),
    fenceWallet: load('fence-wallet', 1),
    unlock: load('unlock-wallet', 1),
    rebuild: load('rebuild', 6, STATE_LUA),
    check: load('check', 1),
  }
}

type Unlock = {
  /** Seq of the last movement that was compared. */
  readonly seq: number
  /** Why the wallet is frozen. */
  readonly frozen?: string
  /** Whether the comparison knew that operators trust the journal. */
  readonly trusts?: boolean
  readonly restored?: { readonly seq: number, readonly amounts: Amounts } | undefined
  /** Numbers of entries in the outbox that others have in the journal. */
  readonly dropped?: readonly number[]
}

type FenceReply =
  | readonly ['unlocked']
  | readonly ['fenced', string]
  | readonly ['waiting', string, string, readonly string[], readonly string[], readonly string[]]

type FenceResult = LockedWallet | 'fenced' | 'unreachable' | undefined

function parseLockedWallet (tenant: string, answer: FenceReply): FenceResult {
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
    outbox: outbox.map(parseEntry).toSorted((a, b) => a.seq - b.seq),
    // A flat list of job, time and state.
    openJobs: Array.from({ length: jobs.length / 3 }, (_, index) => {
      const [job = '', sinceMs, state] = jobs.slice(3 * index)
      return { job, sinceMs: integer(sinceMs), state: state as JobInRedis['state'] }
    }),
    trustsJournal: trust === 'journal',
  }
}

function walletFields ({ seq, amounts }: NonNullable<Unlock['restored']>) {
  const { availableMicros, reservedMicros, chargedMicros, fundedMicros } = amounts
  return {
    seq,
    available: availableMicros,
    reserved: reservedMicros,
    charged: chargedMicros,
    funded: fundedMicros,
  }
}

function rebuildArguments ({ run, fence }: LeaderTerm, rebuilt: RebuiltJob): string {
  const { job, nowMs, idempotencyKey, fingerprint, claimedAt, feed, settled, isClosed } = rebuilt
  return namedArguments({
    run,
    fence,
    job,
    nowMs,
    idempotencyKey,
    fingerprint,
    claimedAt,
    cursor: feed.cursor,
    cursorTo: feed.to,
    settledSeq: settled?.seq ?? '',
    settledMicros: settled?.chargeMicros ?? 0,
    isClosed,
    record: toFields(rebuilt.fields),
  })
}
