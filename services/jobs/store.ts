import { moneyKeys } from '../money/redis-keys.ts'
import { createActivation } from '../money/tenants.ts'
import type { Job, ManifestEntry } from './job.ts'
import { fieldsOf, jobOf, outcomeIn, RECORD_FIELDS, recordFields } from './job-record.ts'
import { manifestOf, unfinishedRowsOf } from './manifest.ts'
import { jobKeys, openJobIn } from './redis-keys.ts'
import {
  acceptedOf, cancelledOf, claimedOf, jobOutcomeOf, talliedOf, createJobScripts,
} from './scripts.ts'
import type {
  AcceptRequest, Accepted, Attachment, Cancelled, ClaimRequest, FailBlock, IdempotencyClaim,
  OpenJob, Outcome, TallyBlock, Tallied,
} from './store-types.ts'
import type { RedisClient } from '../runtime/platform/redis.ts'

export type JobStore = ReturnType<typeof createJobStore>

/** The store of running jobs in Redis: one idempotent script per step. */
export function createJobStore (redis: RedisClient) {
  const run = createJobScripts(redis)
  const reads = readsOf(redis, run)
  return {
    ...requestsOf(redis, run), ...reads, ...runningOf(run), ...endsOf(run, reads),
  }
}

type Scripts = ReturnType<typeof createJobScripts>
type Reads = ReturnType<typeof readsOf>

/** A job and its manifest: the blocks that count. */
type JobWithManifest = {
  readonly job: Job
  readonly manifest: readonly ManifestEntry[]
  /** The attachment that was kept; none or '' once the job is closed. */
  readonly attached?: string | undefined
}

/** The steps of a request until its job is accepted or refused. */
function requestsOf (redis: RedisClient, run: Scripts) {
  const activate = createActivation(redis)
  return {
    /**
     * Binds an idempotency key, if there is one, to a job id until `acceptBy`, and stores the data
     * key of the job.
     */
    claim: async (tenant: string, request: ClaimRequest): Promise<IdempotencyClaim> =>
      claimedOf(await run.claim(tenant, request)),

    /**
     * Reserves the price and stores the job, or refuses it. The result for a job id never changes.
     */
    accept: async (tenant: string, request: AcceptRequest): Promise<Accepted> => {
      await activate(tenant)
      return acceptedOf({ tenant, job: request.id }, await run.accept(tenant, request))
    },

    /**
     * Refuses a claim and deletes its data key, or returns its stored outcome. `expired` has no
     * effect before `acceptBy`; then the outcome is `open`.
     */
    refuse: async (tenant: string, job: string, code: 'expired' | 'internal'): Promise<Outcome> =>
      jobOutcomeOf({ tenant, job }, await run.refuse(tenant, job, code)),
  }
}

/** Reads; they change nothing. */
function readsOf (redis: RedisClient, run: Scripts) {
  /** A missing job is read again behind the recovery guard: Redis may have lost its data. */
  const fieldsIn = async (tenant: string, job: string) => {
    const found = recordFields(await redis.hmget(jobKeys(tenant, job).job, ...RECORD_FIELDS))
    const isDecided = found['status'] !== undefined || found['refusal'] !== undefined
    return isDecided ? found : fieldsOf((await run.read(tenant, job)).slice(1))
  }
  /** The accepted job, until 10 minutes after its close. */
  const read = async (tenant: string, job: string): Promise<Job | undefined> => {
    const fields = await fieldsIn(tenant, job)
    return fields['status'] === undefined ? undefined : jobOf(tenant, fields)
  }
  return {
    read,

    outcome: async (tenant: string, job: string): Promise<Outcome> =>
      outcomeIn({ tenant, job }, await fieldsIn(tenant, job)),

    /** The accepted job and its manifest by chunk, read atomically. */
    readWithManifest: async (tenant: string, job: string): Promise<JobWithManifest | undefined> => {
      const found = await redis.hgetallBuffer(jobKeys(tenant, job).job)
      const fields = recordFields(RECORD_FIELDS.map(name => found[name]?.toString() ?? null))
      if (fields['status'] !== undefined) {
        const attached = found['attached']?.toString()
        return { job: jobOf(tenant, fields), manifest: manifestOf(found), attached }
      }
      // Throws while the recovery guard is active: then a missing record proves nothing.
      await run.read(tenant, job)
      return undefined
    },

    /**
     * What to do with a verification batch. `cancelling`: end its rows free. `skip`: emit nothing.
     */
    batchAction: async (tenant: string, job: string): Promise<'run' | 'cancelling' | 'skip'> => {
      const { job: key } = jobKeys(tenant, job)
      const [status, ended] = await redis.hmget(key, 'status', 'ended')
      if (status === null) return await read(tenant, job) === undefined ? 'skip' : 'run'
      if (ended === '1') return 'skip'
      return status === 'cancelling' ? 'cancelling' : 'run'
    },

    /** Jobs that are not closed, the oldest first. */
    openJobs: async (tenant: string): Promise<OpenJob[]> => {
      const fields = Object.entries(await redis.hgetall(moneyKeys(tenant).wallet))
      return fields.flatMap(([name, at]) => {
        const job = openJobIn(name)
        return job === undefined ? [] : [{ job, sinceMs: Number(at) }]
      }).toSorted((a, b) => a.sinceMs - b.sinceMs)
    },
  }
}

/** The steps of a running job. */
function runningOf (run: Scripts) {
  return {
    /**
     * Marks the job as produced, notifies its request, and removes the reserve entry `seq`, which
     * the journal topic has acknowledged, from the outbox.
     */
    announce: async (tenant: string, job: string, seq?: number): Promise<void> => {
      await run.announce(tenant, job, seq)
    },

    /** Cancels a job: checks under way finish and are charged, all other rows end free. */
    cancel: async (tenant: string, job: string): Promise<Cancelled> =>
      cancelledOf(tenant, await run.cancel(tenant, job)),

    /**
     * Counts the rows of a block that no earlier block has; ends and settles the job with the last
     * row. With `recount`, `ledger` counts the blocks of a job again in their original order.
     * @throws ReplayingError for a block that replaces lost ones, while its job is recounted.
     */
    tally: async (
      tenant: string, block: TallyBlock, { recount = false }: { readonly recount?: boolean } = {}
    ): Promise<Tallied> =>
      talliedOf(tenant, await run.tally(tenant, [block], { ...NO_ATTACHMENT, recount })),

    /**
     * Tallies blocks of one job in their order, several in one step. Returns each step. Requests
     * that wait for the job get the attachment with the notification of its end.
     */
    tallyAll: async (
      tenant: string, blocks: readonly TallyBlock[], attachment: Attachment = NO_ATTACHMENT
    ): Promise<readonly Tallied[]> =>
      // Redis answers in the order of the requests, so the steps are counted in order.
      await Promise.all(stepsOf(blocks).map(async step =>
        talliedOf(tenant, await run.tally(tenant, step, { ...attachment, recount: false })))),
  }
}

const NO_ATTACHMENT: Attachment = { attached: '', keeps: false }

/** More blocks would keep Redis busy for too long. */
const BLOCKS_PER_STEP = 8

type Step = readonly [TallyBlock, ...TallyBlock[]]

function stepsOf ([first, ...rest]: readonly TallyBlock[]): readonly Step[] {
  if (first === undefined) return []
  const step: Step = [first, ...rest.slice(0, BLOCKS_PER_STEP - 1)]
  return [step, ...stepsOf(rest.slice(BLOCKS_PER_STEP - 1))]
}

/** The steps that close an ended job, or end a stalled one. */
function endsOf (run: Scripts, { readWithManifest }: Reads) {
  return {
    /** Ends a job whose last row was counted while the wallet was frozen. */
    end: async (tenant: string, job: string): Promise<Tallied> =>
      talliedOf(tenant, await run.end(tenant, job)),

    /**
     * Closes an ended job; its record and data key expire after 10 minutes. Removes the journal
     * entry `seq`, which the journal topic has acknowledged, from the outbox. Returns false if the
     * job has not ended.
     */
    close: async (tenant: string, job: string, seq?: number): Promise<boolean> => {
      const [answer] = await run.close(tenant, { job, seq })
      return answer === 'closed'
    },

    /** Bitmap of the whole job: rows that no block has finished; undefined unless the job runs. */
    unfinishedRows: async (tenant: string, job: string): Promise<Buffer | undefined> => {
      const found = await readWithManifest(tenant, job)
      if (found === undefined || found.job.ended) return undefined
      return unfinishedRowsOf(found.job.preflight.totalRows, found.manifest)
    },

    /**
     * Ends a stalled job as failed: assigns its open rows to the block, charges rows that were
     * verified live, and releases the rest. Returns `known` with `ended: false` if the job has made
     * progress since `unfinishedRows`.
     */
    fail: async (tenant: string, job: string, block: FailBlock): Promise<Tallied> =>
      talliedOf(tenant, await run.fail(tenant, job, block)),
  }
}
