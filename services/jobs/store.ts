import type { Redis } from 'ioredis'
import { moneyKeys } from '../money/redis-keys.ts'
import { createActivation } from '../money/tenants.ts'
import type { Job, ManifestEntry } from './job.ts'
import { fieldsOf, jobOf, RECORD_FIELDS, recordFields, refusalOf } from './job-record.ts'
import { manifestOf, openRowsOf } from './manifest.ts'
import { jobKeys, openJobIn } from './redis-keys.ts'
import { acceptedOf, cancelledOf, claimedOf, outcomeOf, talliedOf } from './replies.ts'
import { createJobScripts } from './scripts.ts'
import type {
  AcceptRequest, Accepted, Cancelled, Claim, ClaimRequest, FailBlock, OpenJob, Outcome, TallyBlock,
  Tallied,
} from './steps.ts'

export type {
  AcceptRequest, Accepted, Cancelled, Claim, ClaimRequest, FailBlock, OpenJob, Outcome, TallyBlock,
  Tallied,
} from './steps.ts'

export type JobStore = ReturnType<typeof createJobStore>

/** The jobs of all tenants while they run: one script a step, each harmless when repeated. */
export function createJobStore (redis: Redis) {
  const run = createJobScripts(redis)
  const reads = readsOf(redis, run)
  return {
    ...requestsOf(redis, run), ...reads, ...runningOf(redis, run, reads), ...endsOf(run, reads),
  }
}

type Scripts = ReturnType<typeof createJobScripts>
type Reads = ReturnType<typeof readsOf>

/** A job, and the blocks of it that count. */
export type WholeJob = { readonly job: Job, readonly manifest: readonly ManifestEntry[] }

/** What becomes of a request, until its job is accepted or can never be. */
function requestsOf (redis: Redis, run: Scripts) {
  const activate = createActivation(redis)
  return {
    /** Binds an idempotency key, if there is one, to a job id until `acceptBy`. */
    claim: async (tenant: string, request: ClaimRequest): Promise<Claim> =>
      claimedOf(await run.claim(tenant, request)),

    /** Reserves and writes the job, or says why not: once a job id, the same answer ever after. */
    accept: async (tenant: string, request: AcceptRequest): Promise<Accepted> => {
      await activate(tenant)
      return acceptedOf(tenant, await run.accept(tenant, request))
    },

    /**
     * Makes sure that no job comes of a claim, unless one already has: then the stored outcome is
     * returned. `expired` does nothing before `acceptBy`, the outcome stays `open`.
     */
    refuse: async (tenant: string, job: string, code: 'expired' | 'internal'): Promise<Outcome> => {
      const idempotencyKey = await redis.hget(jobKeys(tenant, job).job, 'idempotencyKey') ?? ''
      return outcomeOf(tenant, await run.refuse(tenant, { job, code, idempotencyKey }))
    },

    /** Makes what was sealed for a request unreadable at once; only when no job came of it. */
    eraseKey: async (tenant: string, job: string): Promise<void> => {
      await redis.del(jobKeys(tenant, job).dataKey)
    },
  }
}

/** What is known of a job; nothing here changes anything. */
function readsOf (redis: Redis, run: Scripts) {
  /** That nothing is known of a job is believed only behind the gate. */
  const fieldsIn = async (tenant: string, job: string) => {
    const found = recordFields(await redis.hmget(jobKeys(tenant, job).job, ...RECORD_FIELDS))
    const isDecided = found['status'] !== undefined || found['refusal'] !== undefined
    return isDecided ? found : fieldsOf((await run.read(tenant, job)).slice(1))
  }
  /** The accepted job, while it runs and for 10 minutes after it was closed. */
  const read = async (tenant: string, job: string): Promise<Job | undefined> => {
    const fields = await fieldsIn(tenant, job)
    return fields['status'] === undefined ? undefined : jobOf(tenant, fields)
  }
  return {
    read,

    outcome: async (tenant: string, job: string): Promise<Outcome> => {
      const fields = await fieldsIn(tenant, job)
      if (fields['status'] !== undefined) return { kind: 'accepted', job: jobOf(tenant, fields) }
      const refusal = refusalOf(fields)
      return refusal === undefined ? { kind: 'open' } : { kind: 'refused', refusal }
    },

    /** The same with the blocks that count, by chunk, as of one moment. */
    readWhole: async (tenant: string, job: string): Promise<WholeJob | undefined> => {
      const found = await redis.hgetallBuffer(jobKeys(tenant, job).job)
      const fields = recordFields(RECORD_FIELDS.map(name => found[name]?.toString() ?? null))
      if (fields['status'] !== undefined) {
        return { job: jobOf(tenant, fields), manifest: manifestOf(found) }
      }
      // Throws where that nothing is there says nothing.
      await run.read(tenant, job)
      return undefined
    },

    /** Jobs not closed, the one longest without progress first. */
    openJobs: async (tenant: string): Promise<OpenJob[]> => {
      const fields = Object.entries(await redis.hgetall(moneyKeys(tenant).wallet))
      return fields.flatMap(([name, at]) => {
        const job = openJobIn(name)
        return job === undefined ? [] : [{ job, progressAtMs: Number(at) }]
      }).toSorted((a, b) => a.progressAtMs - b.progressAtMs)
    },
  }
}

/** The steps of a job that runs. */
function runningOf (redis: Redis, run: Scripts, { read }: Reads) {
  return {
    /** Everything of the job is produced: its request may be answered. No job, no effect. */
    announce: async (tenant: string, job: string): Promise<void> => {
      await run.announce(tenant, job)
    },

    /** Asked before the checks of a part: `cancelling` ends its rows free, `skip` emits nothing. */
    beginPart: async (tenant: string, job: string): Promise<'run' | 'cancelling' | 'skip'> => {
      const { job: key } = jobKeys(tenant, job)
      const [status, ended] = await redis.hmget(key, 'status', 'ended')
      if (status === null) return await read(tenant, job) === undefined ? 'skip' : 'run'
      if (ended === '1') return 'skip'
      if (status === 'cancelling') return 'cancelling'
      if (status !== 'verifying') await run.beginVerifying(tenant, job)
      return 'run'
    },

    /** Ends a job early: what is under check is finished and charged, the rest ends free. */
    cancel: async (tenant: string, job: string): Promise<Cancelled> =>
      cancelledOf(tenant, await run.cancel(tenant, job)),

    /**
     * Gives the block the rows no block had before; ends and settles the job with the last one.
     * `again` says that `ledger` counts the blocks of a job anew, in the order they came in.
     * @throws ReplayingError for a block that stands in for others, while that is under way.
     */
    tally: async (
      tenant: string, block: TallyBlock, { again = false }: { readonly again?: boolean } = {}
    ): Promise<Tallied> => talliedOf(tenant, await run.tally(tenant, block, again)),
  }
}

/** What closes a job that has ended, or ends one that never would. */
function endsOf (run: Scripts, { readWhole }: Reads) {
  return {
    /** Ends a job all of whose rows were counted while its tenant's wallet was frozen. */
    end: async (tenant: string, job: string): Promise<Tallied> =>
      talliedOf(tenant, await run.end(tenant, job)),

    /**
     * Closes a job that has ended, which is kept for 10 minutes with its data key, and removes the
     * entry with this number, which the journal topic has acknowledged, from the outbox; false when
     * none has ended.
     */
    close: async (tenant: string, job: string, seq?: number): Promise<boolean> => {
      const [answer] = await run.close(tenant, job, seq)
      return answer === 'closed'
    },

    /** Bitmap of the whole job: rows no block has brought; undefined unless the job runs. */
    openRows: async (tenant: string, job: string): Promise<Buffer | undefined> => {
      const found = await readWhole(tenant, job)
      if (found === undefined || found.job.ended) return undefined
      return openRowsOf(found.job.preflight.totalRows, found.manifest)
    },

    /**
     * Ends a stalled job as failed: its open rows are given to the block, rows verified live before
     * are charged, the rest is released. `known` with `ended: false` when the job has moved since
     * `openRows`.
     */
    fail: async (tenant: string, job: string, block: FailBlock): Promise<Tallied> =>
      talliedOf(tenant, await run.fail(tenant, job, block)),
  }
}
