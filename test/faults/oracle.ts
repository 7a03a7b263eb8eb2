import { parse } from 'csv-parse/sync'
import Type from 'typebox'
import { isDeepStrictEqual } from 'node:util'
import { setTimeout as sleep } from 'node:timers/promises'
import { ROW_COUNTERS } from '../../schemas/api/job.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { ApiError, type JobStatusResource, type ResultRow } from '../../services/client/client.ts'
import { withAdmin } from '../../services/runtime/kafka/admin.ts'
import { toKafkaConnection } from '../../services/runtime/kafka/connection.ts'
import {
  commonConfig, kafkaKeys, loadConfig, pick,
} from '../../services/runtime/platform/config.ts'
import { deadTopic } from '../../services/runtime/platform/topics.ts'
import { STAGES } from '../../services/topology.ts'
import { runAudit } from '../../services/admin/audit/run.ts'
import type { Answer, ClientLog, Promised } from './client-log.ts'
import type { Receiver } from './receiver.ts'
import type { End } from './environment.ts'
import type { FaultStack } from './stack.ts'

export type OracleDeps = {
  readonly log: ClientLog
  readonly receiver: Receiver
  readonly env: Readonly<Record<string, string>>
  readonly orgId: string
  /** Ends of services during the fault. */
  readonly ends: readonly End[]
  /** Dead letters written during the fault. */
  readonly deadLetters: () => Promise<number>
}

export type Verdict = { readonly held: readonly string[], readonly breaches: readonly string[] }

/** Each job's end, by id. */
type Ended = ReadonlyMap<string, JobStatusResource>
type Invariant = (deps: OracleDeps, jobs: Ended) => Promise<readonly string[]>

/** Far beyond the slowest job on a busy machine: a job open by then will never end. */
const END_WITHIN_MS = 240_000

/**
 * The invariants, which do not depend on the fault. Each returns its violations; the table counts
 * those that hold.
 */
const INVARIANTS: Readonly<Record<string, Invariant>> = {
  'every 202 ends': async ({ log }, jobs) => log.promised.flatMap(({ id }) => {
    const { status = 'not found or not ended' } = jobs.get(id) ?? {}
    return status === 'completed' ? [] : [`${id} is ${status}`]
  }),
  'every row once, in order': async ({ log }, jobs) =>
    await ofEach(log.promised.filter(({ id }) => jobs.has(id)), async ({ id, request }) => {
      const rows = parse(await log.client.results(id), { columns: true }) as
        Readonly<Record<string, string>>[]
      const wrong = request.inputs.findIndex((input, index) =>
        rows[index]?.['row'] !== String(index + 1) || rows[index]['input'] !== input)
      if (rows.length === request.inputs.length && wrong < 0) return []
      return [`${id}: ${rows.length} of ${request.inputs.length} rows, wrong from ${wrong}`]
    }),
  'rows that were answered are those of the results': async ({ log }, jobs) =>
    await ofEach(log.promised.filter(({ id }) => jobs.has(id)), async ({ id, results }) => {
      if (results.length === 0) return []
      const { data } = await log.client.resultsPage(id)
      return JSON.stringify(data) === JSON.stringify(results) ? [] : [`${id}: other rows`]
    }),
  'rows that were read while a job ran are those of its file': async ({ log }, jobs) =>
    await ofEach(log.promised.filter(({ id }) => jobs.has(id) && log.readRows.has(id)),
      async ({ id, request }) => await checkReader(log, id, request.inputs.length)),
  'verdicts and reasons are those of the file': async ({ log }, jobs) =>
    await ofEach(log.promised.filter(({ id }) => jobs.has(id)), async ({ id }) => {
      const { verdicts, reasons } = jobs.get(id)!
      const rows = parse(await log.client.results(id), { columns: true }) as
        Readonly<Record<string, string>>[]
      const none = { valid: 0, invalid: 0, risky: 0, unknown: 0 }
      const inFile = [{ ...none, ...countOf(rows, 'status') }, countOf(rows, 'reason')]
      return isDeepStrictEqual([{ ...verdicts }, { ...reasons }], inFile)
        ? []
        : [`${id}: ${JSON.stringify([verdicts, reasons])}, the file ${JSON.stringify(inFile)}`]
    }),
  'counts add up': async ({ log }, jobs) => log.promised.flatMap(({ id, request }) => {
    const job = jobs.get(id)
    if (job === undefined) return []
    const ends = job.successRecords + job.failedRecords
    const kinds = ROW_COUNTERS.reduce((sum, name) => sum + job[name], 0)
    const money = job.chargedMicros + job.releasedMicros === job.maxQuoteMicros
    const { length } = request.inputs
    if (ends === length && kinds === length && money) return []
    return [`${id}: ${JSON.stringify(job)}`]
  }),
  'audit without breaches': async ({ env, orgId }) => {
    const report = await runAudit(env, { only: [tenantOf(orgId, 'live')], waitMs: END_WITHIN_MS })
    return report.breaches.map(breach => JSON.stringify(breach))
  },
  'one job a key': async ({ log }) => {
    const made: string[] = []
    for await (const { id } of log.client.jobs()) made.push(id)
    const known = new Set(log.promised.map(({ id }) => id))
    const unknown = made.filter(id => !known.has(id))
    return [...log.doubles, ...unknown.map(id => `${id} exists and no client has its id`)]
  },
  'every request is answered': async ({ log }) => log.lost,
  'webhooks end delivered or exhausted, one event a job': async (parts, jobs) =>
    await checkWebhooks(parts, jobs),
  'no answer 500, 503 only with Retry-After': async ({ log }) => {
    const wrong = log.answers.filter(isWrong)
    return [...new Set(wrong.map(({ method, path, status, retryAfter }) =>
      `${status} to ${method} ${path.replace(/job_\w+/, ':id')}, Retry-After ${retryAfter}`))]
  },
  'no service ends by itself': async ({ ends }) =>
    ends.filter(({ isExpected }) => !isExpected)
      .map(({ name, how }) => `${name} ended: ${how}`),
  'nothing is a dead letter': async ({ deadLetters }) => {
    const found = await deadLetters()
    return found === 0 ? [] : [`${found} dead letters`]
  },
}

/** Judges what the clients and the stores saw, once everything had time to come to its end. */
export async function verify (deps: OracleDeps): Promise<Verdict> {
  const jobs = await endsOf(deps.log)
  const held: string[] = []
  const breaches: string[] = []
  for (const [name, invariant] of Object.entries(INVARIANTS)) {
    const found = await invariant(deps, jobs)
      .catch(error => [`could not be checked: ${String(error)}`])
    if (found.length === 0) held.push(name)
    breaches.push(...found.slice(0, 5).map(text => `${name}: ${text}`))
    if (found.length > 5) breaches.push(`${name}: and ${found.length - 5} more`)
  }
  return { held, breaches }
}

async function endsOf ({ client, promised }: ClientLog): Promise<Ended> {
  const ended = new Map<string, JobStatusResource>()
  const giveUpAt = Date.now() + END_WITHIN_MS
  await ofEach(promised, async ({ id }: Promised) => {
    while (Date.now() < giveUpAt) {
      const timeoutMs = Math.max(1, giveUpAt - Date.now())
      try {
        ended.set(id, await client.waitForEnd(id, { timeoutMs }))
        return []
      } catch (error) {
        if (error instanceof ApiError && error.status === 404) return []
        await new Promise(resolve => setTimeout(resolve, 200))
      }
    }
    return []
  })
  return ended
}

/** Some at a time, so that the check is no load of its own. */
async function ofEach<T> (
  all: readonly T[], check: (one: T) => Promise<readonly string[]>
): Promise<readonly string[]> {
  const found: string[] = []
  const left = [...all]
  const worker = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) {
      found.push(...await check(one))
    }
  }
  await Promise.all(Array.from({ length: 4 }, worker))
  return found
}

const countOf = (rows: readonly Readonly<Record<string, string>>[], column: string) =>
  Object.fromEntries([...Map.groupBy(rows, row => row[column] ?? '')]
    .map(([text, { length }]) => [text, length]))

const MAX_READS = 50

/** What a reader of a job has, with the rest that it reads now: each row once, as in the file. */
async function checkReader (
  log: ClientLog, id: string, rows: number
): Promise<readonly string[]> {
  for (let reads = 0; reads < MAX_READS; reads += 1) {
    if (await log.readOn(id) && (log.readRows.get(id)?.rows.length ?? 0) >= rows) break
    await sleep(200)
  }
  const read = (log.readRows.get(id)?.rows ?? [])
    .map(({ cursor: _, provisional: _isOpen, ...row }) => row)
    .toSorted((a, b) => Number(a['row']) - Number(b['row']))
  const final: ResultRow[] = []
  for await (const row of log.client.resultLines(id)) final.push(row)
  const wrong = final.findIndex((row, at) => !isDeepStrictEqual(read[at], row))
  return wrong < 0 && read.length === final.length
    ? []
    : [`${id}: its reader has ${read.length} of ${final.length} rows, wrong from ${wrong}`]
}

async function checkWebhooks (
  { log, receiver }: OracleDeps, jobs: Ended
): Promise<readonly string[]> {
  const wanted = log.promised.filter(({ id, request }) => request.webhook_url && jobs.has(id))
  const giveUpAt = Date.now() + END_WITHIN_MS
  const found = await ofEach(wanted, async ({ id }) => {
    for (;;) {
      const tries = await log.client.deliveries(id)
      const last = tries[0]?.outcome
      if (last !== undefined && last !== 'failed') {
        const ids = new Set([...tries.map(one => one.deliveryId), ...receiver.events.get(id) ?? []])
        return ids.size === 1 ? [] : [`${id} has the events ${[...ids].join(', ')}`]
      }
      if (Date.now() > giveUpAt) return [`${id}: the last of ${tries.length} tries is ${last}`]
      await new Promise(resolve => setTimeout(resolve, 200))
    }
  })
  const subscribed = new Set(wanted.map(({ id }) => id))
  const unwanted = [...receiver.events.keys()].filter(id => !subscribed.has(id) && jobs.has(id))
  return [...found, ...unwanted.map(id => `${id} got an event without a webhook_url`)]
}

function isWrong ({ status, retryAfter }: Answer): boolean {
  if (status === 503 || status === 429) return retryAfter === null
  return status >= 500 || [400, 401, 402, 403, 404, 405, 413, 415, 422].includes(status)
}

const kafkaConfig = Type.Object(pick(commonConfig, kafkaKeys))

/** Messages in all dead-letter topics. */
export async function countDead ({ env }: FaultStack): Promise<number> {
  return await withAdmin(toKafkaConnection(loadConfig(kafkaConfig, env)), async admin => {
    const there = new Set(await admin.listTopics())
    const topics = STAGES.map(deadTopic)
      .filter(topic => there.has(topic))
    let count = 0
    // One after another: with several brokers one metadata lookup discards the result of another.
    for (const topic of topics) {
      for (const { high } of await admin.fetchTopicOffsets(topic)) count += Number(high)
    }
    return count
  })
}
