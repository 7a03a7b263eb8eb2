import { existsSync } from 'node:fs'
import { agreeOnPrice } from './agree.ts'
import { joinParts } from './join-parts.ts'
import { openRun } from './open-run.ts'
import { renameDurably } from './private-file.ts'
import type { RunState, RunStore } from './run-state.ts'
import { learnUnanswered, runJobs } from './send-parts.ts'
import {
  stateFileOf, unfinishedFileOf, type SubmitParts, type SubmitSettings,
} from './submit-settings.ts'

export type SubmitSummary = {
  readonly output: string
  readonly rows: number
  readonly byStatus: Readonly<Record<string, number>>
  readonly chargedMicros: number
  readonly releasedMicros: number
  readonly jobs: readonly { readonly id: string, readonly status: string, readonly rows: number }[]
  /** Rows of jobs that were cancelled or failed are in the output, some of them unknown. */
  readonly completed: boolean
}

/**
 * Verifies the contacts of a CSV file and writes the file anew with the results behind its columns.
 * What has to be known to go on is kept beside the output, so that the same call after a crash goes
 * on where it was and pays for nothing twice. Throws UsageError and CommandError with what to do,
 * and ApiError for a refusal of the service.
 */
export async function submitFile (
  settings: SubmitSettings, parts: SubmitParts
): Promise<SubmitSummary> {
  const store = await openRun(settings, parts)
  parts.onRun?.(store)
  const run = { settings, parts, store }
  if (!isRenamed(settings, store.state())) {
    await learnUnanswered(run)
    await agreeAndRun(run)
    await joinParts(run)
    const rename = parts.rename ?? renameDurably
    rename(unfinishedFileOf(settings.output), settings.output)
  }
  store.remove()
  return summaryOf(settings.output, store.state())
}

async function agreeAndRun (run: Parameters<typeof runJobs>[0]): Promise<void> {
  try {
    await agreeOnPrice(run)
  } catch (error) {
    // Nothing was sent, so there is nothing to go on with.
    if (run.store.state().parts.every(({ sentAtMs }) => sentAtMs === undefined)) run.store.remove()
    throw error
  }
  await runJobs(run)
}

/** A run may have been ended between its last two steps. */
function isRenamed ({ output }: SubmitSettings, { joined, parts }: RunState): boolean {
  const isJoined = joined.parts === parts.length
  return isJoined && existsSync(output) && !existsSync(unfinishedFileOf(output))
}

function summaryOf (output: string, { parts, plan, joined }: RunState): SubmitSummary {
  const sum = (name: 'chargedMicros' | 'releasedMicros') =>
    parts.reduce((total, { end }) => total + (end?.[name] ?? 0), 0)
  return {
    output,
    rows: plan.rows,
    byStatus: joined.byStatus,
    chargedMicros: sum('chargedMicros'),
    releasedMicros: sum('releasedMicros'),
    jobs: parts.map(({ job = '', end, rows }) => ({ id: job, status: end?.status ?? '', rows })),
    completed: parts.every(({ end }) => end?.status === 'completed'),
  }
}

/** Ends a run before its end: what to tell the one who does. Where nothing was sent, none stays. */
export function interruptRun (settings: Pick<SubmitSettings, 'output'>, store?: RunStore): string {
  const sent = store?.state().parts.filter(({ sentAtMs }) => sentAtMs !== undefined) ?? []
  if (sent.length === 0) {
    store?.remove()
    return 'Interrupted. Nothing was sent, and nothing is paid.'
  }
  const running = sent.filter(({ end }) => end === undefined)
  const ids = running.map(({ job }) => job ?? 'one whose id is not known yet')
  return [
    'Interrupted. Run the same command again to go on; nothing is paid twice.',
    `What is needed for that is in ${stateFileOf(settings.output)}.`,
    running.length === 0
      ? 'All jobs sent so far have ended on the service.'
      : `On the service these jobs go on and are paid: ${ids.join(', ')}. ` +
        '"verification-jobs cancel JOB" ends one.',
  ].join('\n')
}
