import { setTimeout as sleep } from 'node:timers/promises'
import type { JobRequest } from '../../services/client/client.ts'
import { mixedPhones } from '../bench/jobs.ts'
import type { ClientLog, Promised } from './client-log.ts'
import type { Manner, Receiver } from './receiver.ts'
import { poll } from './poll.ts'

/** What the clients send; shares are from 0 to 1. */
export type LoadPlan = {
  /** Clients, each of which sends its next job when its last one has ended or takes long. */
  readonly clients: number
  readonly smallRows: number
  readonly bulkRows: number
  readonly bulkShare: number
  readonly emailShare: number
  readonly webhookShare: number
  readonly manners: readonly Manner[]
  readonly freshShare: number
  /** Jobs whose request is sent twice at once with one key. */
  readonly twiceShare: number
  /** Small jobs whose client waits for the rows in the answer. */
  readonly waitShare: number
  /** Jobs whose rows are read while they run. */
  readonly readShare: number
  /** How long a client waits with its next job. */
  readonly pauseMs: number
  /** Service of the phone numbers. */
  readonly service: string
}

export const USUAL: LoadPlan = {
  clients: 3,
  smallRows: 40,
  bulkRows: 2_500,
  bulkShare: 0.15,
  emailShare: 0.3,
  webhookShare: 0.4,
  manners: ['well', 'well', 'well', 'flaky'],
  freshShare: 0.3,
  twiceShare: 0.2,
  waitShare: 0.4,
  readShare: 0.4,
  pauseMs: 0,
  service: 'phone-validation',
}

/** What differs in the quick run of CI, where seconds count. */
export const LIGHT: Partial<LoadPlan> = {
  bulkRows: 1_200, bulkShare: 0.1, manners: ['well'], pauseMs: 300,
}

export type Load = {
  readonly plan: LoadPlan
  /** Ends of jobs that the clients have seen. */
  readonly ended: () => number
  /** Resolves when that many further jobs have ended, or the time is over. */
  readonly untilEnded: (more: number, withinMs?: number) => Promise<boolean>
  /** The moment of the next end of a job that was accepted after a moment. */
  readonly nextEnd: (afterMs: number, withinMs: number) => Promise<number | undefined>
  /**
   * When the last of the jobs that the clients were promised between two moments had ended;
   * undefined when some have not within the time.
   */
  readonly allEnded: (
    fromMs: number, toMs: number, withinMs: number,
  ) => Promise<number | undefined>
  /** A request as the clients send them. */
  readonly request: (rows: number, service?: string) => JobRequest
  /** No further jobs; resolves when every request was answered. */
  readonly stop: () => Promise<void>
}

export type LoadOptions = {
  readonly log: ClientLog
  readonly receiver: Receiver
  readonly random: () => number
  readonly plan: LoadPlan
  /** No other run uses serials from here on. */
  readonly firstSerial: number
}

const LONG_MS = 4_000
const READ_EVERY_MS = 300
const ENDED = ['completed', 'cancelled', 'failed']

/** Clients that send jobs until they are stopped. */
export function startLoad (options: LoadOptions): Load {
  const { log, random, plan } = options
  const stopping = new AbortController()
  const requests = createRequests(options)
  const seen: Seen = { ends: [], followed: [] }
  const readers: Promise<void>[] = []
  const client = async () => {
    while (!stopping.signal.aborted) {
      const made = await log.post(requests.next(), {
        twice: random() < plan.twiceShare, waits: random() < plan.waitShare,
      })
      if (made === undefined) continue
      const { id, acceptedAtMs } = made
      seen.followed.push(made)
      const following = follow(log, id, stopping.signal).then(ended => {
        if (ended) seen.ends.push({ id, acceptedAtMs, atMs: Date.now() })
      })
      if (random() < plan.readShare) readers.push(readUntil(following, log, id))
      await Promise.race([following, sleep(LONG_MS)])
      await sleep(plan.pauseMs)
    }
  }
  const running = Array.from({ length: plan.clients }, client)
  const stop = async () => {
    stopping.abort()
    await Promise.all(running)
    await Promise.all(readers)
  }
  return { plan, ended: () => seen.ends.length, ...createWaits(seen), request: requests.of, stop }
}

type End = { readonly id: string, readonly acceptedAtMs: number, readonly atMs: number }
type Seen = { readonly ends: End[], readonly followed: Promised[] }

/** True when the job has ended; false when the load is stopped before. */
async function follow ({ client }: ClientLog, id: string, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    const job = await client.job(id).catch(() => undefined)
    if (job !== undefined && ENDED.includes(job.status)) return true
    await sleep(100)
  }
  return false
}

/** Reads the rows of a job until it has ended. */
async function readUntil (end: Promise<void>, log: ClientLog, id: string): Promise<void> {
  const over = new AbortController()
  const ending = end.finally(() => over.abort())
  while (!over.signal.aborted) {
    await log.readOn(id)
    await Promise.race([ending, sleep(READ_EVERY_MS)])
  }
}

function createWaits (
  { ends, followed }: Seen
): Pick<Load, 'untilEnded' | 'nextEnd' | 'allEnded'> {
  return {
    untilEnded: async (more, withinMs = 60_000) => {
      const wanted = ends.length + more
      return await poll(() => ends.length >= wanted || undefined, withinMs) ?? false
    },
    nextEnd: (afterMs, withinMs) =>
      poll(() => ends.find(({ acceptedAtMs }) => acceptedAtMs > afterMs)?.atMs, withinMs),
    allEnded: (fromMs, toMs, withinMs) => poll(() => {
      const wanted = followed.filter(({ acceptedAtMs }) =>
        acceptedAtMs >= fromMs && acceptedAtMs < toMs)
      const times = new Map(ends.map(({ id, atMs }) => [id, atMs]))
      if (Date.now() < toMs || wanted.some(({ id }) => !times.has(id))) return undefined
      return Math.max(fromMs, ...wanted.map(({ id }) => times.get(id) ?? 0))
    }, withinMs),
  }
}

/** Requests that follow from the seed alone. */
function createRequests ({ random, plan, receiver, firstSerial }: LoadOptions) {
  let serial = firstSerial
  const of = (rows: number, service = plan.service): JobRequest => {
    const from = serial
    serial += rows
    const inputs = service === 'email-validation' ? emails(rows, from) : mixedPhones(rows, from)
    const manner = plan.manners[Math.floor(random() * plan.manners.length)] ?? 'well'
    return {
      service,
      inputs,
      countryCode: 'US',
      forceFresh: random() < plan.freshShare,
      ...random() < plan.webhookShare && { webhook_url: receiver.url(manner) },
    }
  }
  const next = (): JobRequest => {
    const bulk = random() < plan.bulkShare
    const service = random() < plan.emailShare ? 'email-validation' : plan.service
    const most = bulk ? plan.bulkRows : plan.smallRows
    return of(Math.max(1, Math.ceil((0.5 + random() / 2) * most)), service)
  }
  return { of, next }
}

/** Addresses, a few of them none, and a few of them twice. */
function emails (rows: number, from: number): readonly string[] {
  return Array.from({ length: rows }, (_, row) => {
    if (row % 20 === 7) return `invalid ${from + row}`
    const serial = row % 20 === 11 ? from + row - 1 : from + row
    return `person.${serial}@example${serial % 7}.com`
  })
}
