import { fork } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as delay } from 'node:timers/promises'
import { createClient, type Client } from '../../../services/client/client.ts'
import type { BenchContext } from '../run.ts'
import {
  freshPhones, percentilesOf, type Percentiles, timeSequentialJobs, withDeadline,
} from '../jobs.ts'
import { memoryOf, usageSince, usagesOf } from '../usage.ts'
import type { SmallLoad, SmallLoadResult } from './small-load.ts'

/** One-row jobs of one organization, each of a contact that is not in its cache. */
type SmallJobsFigures = {
  readonly jobs: number
  /** Accepted jobs, until the money of the last one is settled. */
  readonly jobsPerSecond: number
  /** POST to 202. */
  readonly post: Percentiles
  /** Responses other than 202. */
  readonly refused: number
  readonly cpuMsPerJob: number
  readonly processes: readonly { readonly name: string, readonly cpuMsPerJob: number }[]
}

export type SmallFigures = {
  /** Memory of all services after their start: the sum of the sizes, and with shared pages once. */
  readonly residentMb: number
  readonly proportionalMb: number
  /** One contact, POST to `completed`, on otherwise idle services. */
  readonly oneFresh: Percentiles
  readonly oneCached: Percentiles
  /** At a constant rate that leaves every core time to rest. */
  readonly steady: SmallJobsFigures
  /** The highest rate at which the p95 stays below `MAX_P95_MS`; undefined if none does. */
  readonly highest: (SmallJobsFigures & { readonly clients: number }) | undefined
}

type Options = { readonly apiKey: string, readonly seconds: number }
type Run = (load: SmallLoad) => Promise<SmallJobsFigures>
type Probe = Pick<SmallJobsFigures, 'jobsPerSecond' | 'post' | 'refused'> &
  { readonly clients: number }

/** The p95 of POST to 202 up to which a rate counts as sustained. */
const MAX_P95_MS = 250
/** Two cores sustain this rate with time to rest, so CPU per job hardly depends on the machine. */
const STEADY_JOBS_PER_SECOND = 50
const CLIENTS = [4, 8, 16, 32, 64]
const IDLE_JOBS = 40
const POLL_EVERY_MS = 50

/**
 * Measures small jobs on services that have just started. `seconds` is the duration of the highest
 * rate; the warm-up takes a third of it, the steady rate half, and each probe a sixth.
 */
export async function measureSmallJobs (
  context: BenchContext, { apiKey, seconds }: Options
): Promise<SmallFigures> {
  const { access: { baseUrl }, client, services, log } = context
  const memory = memoryOf(services.list())
  const load = startLoad(baseUrl, apiKey)
  try {
    const run: Run = plan =>
      measureLoad(context, { client: createClient({ baseUrl, apiKey }), send: load.run, plan })
    log(`small: warm-up of ${seconds / 3} s, then ${IDLE_JOBS} jobs of one contact`)
    await run({ clients: 8, seconds: seconds / 3 })
    const oneFresh = await timeSequentialJobs(client, () => freshPhones(1), IDLE_JOBS)
    const known = freshPhones(1)
    const oneCached = await timeSequentialJobs(client, () => known, IDLE_JOBS)
    log(`small: ${seconds / 2} s with ${STEADY_JOBS_PER_SECOND} one-row jobs/s`)
    const steady = await run({ everyMs: 1_000 / STEADY_JOBS_PER_SECOND, seconds: seconds / 2 })
    const highest = await findHighestRate(run, { seconds, log })
    return { ...memory, oneFresh, oneCached, steady, highest }
  } finally {
    load.stop()
  }
}

/** Starts the process of the client; `run` resolves with the result of a load. */
function startLoad (baseUrl: string, apiKey: string) {
  const child = fork(new URL('./small-load.ts', import.meta.url), [baseUrl, apiKey])
  const exited = once(child, 'exit')
  const run = async (load: SmallLoad): Promise<SmallLoadResult> => {
    const result = once(child, 'message') as Promise<[SmallLoadResult]>
    child.send(load)
    const ended = exited.then(([code]) => {
      throw new Error(`the client process ended with exit code ${String(code)}`)
    })
    return (await Promise.race([result, ended]))[0]
  }
  return { run, stop: () => child.kill() }
}

type Load = {
  readonly client: Client
  readonly send: (load: SmallLoad) => Promise<SmallLoadResult>
  readonly plan: SmallLoad
}

/** Runs a load until the money of its last job is settled, so that no backlog is left out. */
async function measureLoad (
  { services, infrastructure }: BenchContext, { client, send, plan }: Load
): Promise<SmallJobsFigures> {
  const processes = [...services.list(), ...infrastructure]
  const before = usagesOf(processes)
  const startedAt = performance.now()
  const { timesMs, refused } = await send(plan)
  await withDeadline('the end of all one-row jobs', untilSettled(client))
  const wallMs = performance.now() - startedAt
  const jobs = timesMs.length
  const used = usageSince(before, usagesOf(processes))
    .map(({ name, cpuSeconds }) => ({ name, cpuMsPerJob: cpuSeconds * 1_000 / jobs }))
  return {
    jobs,
    jobsPerSecond: jobs / wallMs * 1_000,
    post: percentilesOf(timesMs),
    refused,
    cpuMsPerJob: used.reduce((sum, { cpuMsPerJob }) => sum + cpuMsPerJob, 0),
    processes: used,
  }
}

/** Resolves when no money of the organization is reserved. */
async function untilSettled (client: Client): Promise<void> {
  while ((await client.balance()).reservedMicros > 0) await delay(POLL_EVERY_MS)
}

/** Probes increasing numbers of clients, then sustains the best of them for the whole duration. */
async function findHighestRate (
  run: Run, { seconds, log }: Pick<Options, 'seconds'> & Pick<BenchContext, 'log'>
): Promise<SmallFigures['highest']> {
  const probes: Probe[] = []
  for (const clients of CLIENTS) {
    const probe = { clients, ...await run({ clients, seconds: seconds / 6 }) }
    log(`small: ${clients} clients, ${probe.jobsPerSecond.toFixed(0)} jobs/s, ` +
      `p95 ${probe.post.p95Ms.toFixed(0)} ms`)
    probes.push(probe)
    if (!isSustained(probe)) break
  }
  for (const { clients } of bestFirst(probes)) {
    log(`small: ${seconds} s with ${clients} clients`)
    const figures = { clients, ...await run({ clients, seconds }) }
    if (isSustained(figures)) return figures
  }
  log(`small: no rate has a p95 of POST to 202 below ${MAX_P95_MS} ms`)
  return undefined
}

function isSustained ({ post, refused }: Probe): boolean {
  return post.p95Ms < MAX_P95_MS && refused === 0
}

/** The probes whose p95 is below the limit and that refused no job, by descending rate. */
function bestFirst (probes: readonly Probe[]): readonly Probe[] {
  return probes.filter(isSustained).toSorted((a, b) => b.jobsPerSecond - a.jobsPerSecond)
}
