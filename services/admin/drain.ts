import { setTimeout as delay } from 'node:timers/promises'
import { counted, createProgressLine } from '../client/terminal.ts'
import { lagsOf, type GroupLag } from '../runtime/kafka/lag.ts'
import type { AdminCommand } from './admin-command.ts'
import { type CommandCall, parsePositive, runAndPrint, type Screen } from './command-line.ts'
import { withBrokers } from './connections.ts'
import { countOpenJobs, withJobs } from './jobs.ts'

type Options = { readonly timeout: string }

const HELP = `
The command does not reject new jobs: stop ingest and feed first when a deployment needs empty
topics. It does not wait for contacts of partners that are not part of a job yet; they stay in
their own topics. Exit code 0 when everything is processed, 1 after --timeout.`

/** Adds `drain`. */
export function addDrain (program: AdminCommand, screen: Screen): void {
  program.command('drain').description('wait until no job is open and no group has lag')
    .reads()
    .option('--timeout <seconds>', 'maximum time to wait', '300')
    .addHelpText('after', HELP)
    .example()
    .example('--timeout 900 && echo empty')
    .action(runAndPrint<Options>(screen, async call => {
      const timeoutMs = parsePositive('--timeout', call.options.timeout) * 1_000
      const drained = await drainStack(call, screen, timeoutMs)
      return { data: drained, text: drainedText(drained), isUndone: !drained.drained }
    }))
}

async function drainStack (
  { env, json }: CommandCall<Options>, { errors }: Screen, timeoutMs: number
): Promise<Drained> {
  const line = createProgressLine<RemainingWork>(errors, { textOf: backlogText })
  try {
    return await withBrokers(env, admin => withJobs(env, jobs => drain({
      // Jobs come first: when a job is closed, everything that it has written is in a topic.
      query: async () => joinBacklog(await countOpenJobs(jobs), await lagsOf(admin)),
      show: backlog => { if (!json) line.show(backlog) },
      sleep: delay,
      now: () => performance.now(),
    }, timeoutMs)))
  } finally {
    line.end()
  }
}

/** The remaining work. */
export type RemainingWork = {
  readonly openJobs: number
  readonly lagMessages: number
  /** The groups with lag. */
  readonly groups: readonly string[]
}

type Drained = RemainingWork & { readonly drained: boolean, readonly seconds: number }

type DrainDeps = {
  readonly query: () => Promise<RemainingWork>
  readonly show: (backlog: RemainingWork) => void
  readonly sleep: (ms: number) => Promise<unknown>
  /** Monotonic milliseconds. */
  readonly now: () => number
}

const QUERY_EVERY_MS = 500

/**
 * Waits until the backlog is empty, or for the time limit. Two consecutive queries must be empty,
 * because one query may miss work that moves between a topic and a job meanwhile.
 */
export async function drain (deps: DrainDeps, timeoutMs: number): Promise<Drained> {
  const startedMs = deps.now()
  let emptyQueries = 0
  for (;;) {
    const backlog = await deps.query()
    deps.show(backlog)
    const isEmpty = backlog.openJobs === 0 && backlog.lagMessages === 0
    emptyQueries = isEmpty ? emptyQueries + 1 : 0
    const seconds = Math.round((deps.now() - startedMs) / 100) / 10
    if (emptyQueries >= 2) return { drained: true, seconds, ...backlog }
    if (deps.now() - startedMs >= timeoutMs) return { drained: false, seconds, ...backlog }
    await deps.sleep(QUERY_EVERY_MS)
  }
}

/** Combines the open jobs and the lag of the groups. */
export function joinBacklog (openJobs: number, lags: readonly GroupLag[]): RemainingWork {
  const behind = lags.filter(({ lag }) => lag > 0)
  return {
    openJobs,
    lagMessages: behind.reduce((sum, { lag }) => sum + lag, 0),
    groups: [...new Set(behind.map(({ group }) => group))],
  }
}

/** Formats the backlog as a line. */
export function backlogText ({ openJobs, lagMessages, groups }: RemainingWork): string {
  const more = groups.length > 3 ? `, and ${groups.length - 3} more` : ''
  const names = groups.length === 0 ? '' : ` (${groups.slice(0, 3).join(', ')}${more})`
  return `${counted(openJobs, 'job')} open, lag of ${counted(lagMessages, 'message')}${names}`
}

/** Formats the result. */
export function drainedText (drained: Drained): string {
  const { seconds } = drained
  if (drained.drained) return `Drained after ${seconds} s.`
  return `Not drained after ${seconds} s: ${backlogText(drained)}. "npm run admin -- lag" shows ` +
    'the progress.'
}
