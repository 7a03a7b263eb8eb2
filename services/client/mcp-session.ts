import { randomUUID } from 'node:crypto'
import {
  hasEnded, type JobRequest, type JobStatusResource, type ResultRow,
} from './client.ts'
import {
  coverOrCancel, createFileRuns, type ReportProgress, type SessionDeps,
} from './mcp-files.ts'
import { parseWaitMs, type ToolInput, type ToolKey, type ToolOutput } from './mcp-tools.ts'
import type { Reservation } from './mcp-spending.ts'
import { createdNoJob } from './send-jobs.ts'
import { ApiError } from './transport.ts'

type Session = {
  readonly [K in ToolKey]: (args: ToolInput<K>, report?: ReportProgress) => Promise<ToolOutput<K>>
}

/**
 * The tools of one MCP session without the protocol. Every job is quoted, and its maximum price is
 * reserved within the spending limit, before it is created. Rejects with CommandError and ApiError,
 * whose messages say what to do.
 */
export function createSession (deps: SessionDeps): Session {
  const { client, spending } = deps
  const jobs = createJobs(deps)
  const files = createFileRuns(deps)
  const withSpending = <T extends object>(fields: T) =>
    ({ ...fields, spending: spending.figures() })

  return {
    verifyContacts: async args => {
      await jobs.refresh()
      const id = await jobs.create(toRequest(args))
      const job = await jobs.wait(id, parseWaitMs(args))
      const ended = hasEnded(job)
      const rows = ended ? (await client.resultsPage(id, { limit: args.contacts.length })).data : []
      return withSpending({ ended, job: toJob(job), rows: rows.map(withoutBlanks) })
    },

    verifyFile: async (args, report) => {
      await jobs.refresh()
      return withSpending(await files.run(args, parseWaitMs(args), report))
    },

    getJob: async ({ job_id: id }) => {
      const job = await jobs.read(id)
      return withSpending({ ended: hasEnded(job), job: toJob(job) })
    },

    getResults: async ({ job_id: id, limit = 50, ...query }) => {
      const { data, has_more: hasMore, next_cursor: next } =
        await client.resultsPage(id, { limit, ...query })
      return { rows: data.map(withoutBlanks), has_more: hasMore, next_cursor: next }
    },

    getBalance: async () => {
      await jobs.refresh()
      return withSpending(await client.balance())
    },
  }
}

const toRequest = (
  { service, contacts, country, force_fresh: forceFresh }: ToolInput<'verifyContacts'>
): JobRequest => ({
  service,
  inputs: contacts,
  ...country !== undefined && { countryCode: country },
  ...forceFresh !== undefined && { forceFresh },
})

type Attempt = { readonly key: string, readonly reservation: Reservation }

/** The jobs that `verify_contacts` created, with the money that each may cost. */
function createJobs ({ client, spending, pollEveryMs }: SessionDeps) {
  const open = new Map<string, Reservation>()
  /** Requests whose outcome is unknown: the same request, sent again, is the same job. */
  const unanswered = new Map<string, Attempt>()

  const read = async (id: string): Promise<JobStatusResource> => {
    const job = await client.job(id)
    if (hasEnded(job)) {
      open.get(id)?.settle(job.chargedMicros)
      open.delete(id)
    }
    return job
  }

  const approve = async (body: JobRequest): Promise<Attempt> => {
    const earlier = unanswered.get(JSON.stringify(body))
    const attempt = earlier ?? { key: randomUUID(), reservation: spending.reserve() }
    try {
      attempt.reservation.cover((await client.quote(body)).preflight.maxQuoteMicros)
      return attempt
    } catch (error) {
      if (earlier === undefined) attempt.reservation.settle(0)
      throw error
    }
  }

  const create = async (body: JobRequest): Promise<string> => {
    const { key, reservation } = await approve(body)
    const text = JSON.stringify(body)
    unanswered.set(text, { key, reservation })
    const created = await client.createJob(body, key).catch((error: unknown) => {
      if (createdNoJob(error)) {
        unanswered.delete(text)
        reservation.settle(0)
      }
      throw error
    })
    unanswered.delete(text)
    open.set(created.id, reservation)
    await coverOrCancel({ client, reservation }, created.id, created.preflight.maxQuoteMicros)
    return created.id
  }

  const wait = async (id: string, waitMs: number): Promise<JobStatusResource> => {
    const deadlineMs = Date.now() + waitMs
    await client.waitForEnd(id, { timeoutMs: waitMs, pollEveryMs }).catch((error: unknown) => {
      if (error instanceof ApiError || Date.now() < deadlineMs) throw error
    })
    return await read(id)
  }

  /** Settles jobs that have ended since. */
  const refresh = async () => { await Promise.all([...open.keys()].map(read)) }
  return { create, read, wait, refresh }
}

function toJob (job: JobStatusResource): ToolOutput<'getJob'>['job'] {
  const { id, status, service, totalRows, successRecords, failedRecords, pendingRecords } = job
  const { maxQuoteMicros, chargedMicros, releasedMicros } = job
  return {
    id,
    status,
    service,
    totalRows,
    successRecords,
    failedRecords,
    pendingRecords,
    maxQuoteMicros,
    chargedMicros,
    releasedMicros,
  }
}

const withoutBlanks = (row: ResultRow): ResultRow =>
  Object.fromEntries(Object.entries(row).filter(([, cell]) => cell !== null))
