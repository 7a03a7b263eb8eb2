import { realpathSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { Client } from './client.ts'
import { CommandError } from './terminal.ts'
import type { Account } from './connection.ts'
import { OutputFolder, resolveBelow } from './files.ts'
import type { ToolInput, ToolOutput } from './mcp-tools.ts'
import type { Reservation, Spending } from './mcp-spending.ts'
import { stateFileName, type SubmitSettings } from './run.ts'
import { createdNoJob } from './send-jobs.ts'
import { detectService } from './submit-command.ts'
import { submitFile, type SubmitSummary } from './submit.ts'

/** What the tools of a session work with. */
export type SessionDeps = {
  readonly client: Client
  readonly spending: Spending
  readonly account: Account
  /** Only files below this folder are read and written. */
  readonly folder: string
  /** Writes messages for the user of the host. */
  readonly say: (line: string) => void
  readonly pollEveryMs?: number | undefined
}

type FileArgs = ToolInput<'verifyFile'>
type FileResult = Omit<ToolOutput<'verifyFile'>, 'spending'>

/** Receives how many of the rows of a file are verified. */
export type ReportProgress = (progress: { readonly done: number, readonly rows: number }) => void

type FileRun = {
  /** The arguments as JSON, without those that may differ between calls. */
  readonly args: string
  readonly summary: Promise<SubmitSummary>
  readonly progress: Progress
}

type Progress = {
  done: number
  rows: number
  ended: boolean
  /** Of the calls that wait. */
  readonly reports: Set<ReportProgress>
}

const ROWS_PER_JOB = 100_000
const PARALLEL_JOBS = 4

/**
 * Verifies files as the command `submit` does, each in the background: a call waits for a while,
 * and the same call later continues to wait or returns the result. A file whose run failed, or that
 * an earlier session left unfinished, is resumed and pays for nothing twice.
 */
export function createFileRuns (deps: SessionDeps) {
  const runs = new Map<string, FileRun>()
  /** Reservations by output; a run that failed keeps its reservation until it is resumed. */
  const reservations = new Map<string, Reservation>()

  const start = (args: FileArgs, files: RunFiles): FileRun => {
    const { output } = files
    const reservation = reservations.get(output) ?? deps.spending.reserve()
    reservations.set(output, reservation)
    const progress: Progress = { done: 0, rows: 0, ended: false, reports: new Set() }
    const release = (chargedMicros: number) => {
      reservation.settle(chargedMicros)
      reservations.delete(output)
    }
    const verify = async () => {
      const guarded = guardedClient(deps.client, reservation)
      try {
        const summary = await submitFile(await toSettings(deps, args, files), {
          client: guarded.client,
          say: deps.say,
          approve: micros => { reservation.cover(guarded.createdMicros() + micros) },
          progress: ({ done, rows }) => {
            Object.assign(progress, { done, rows })
            for (const report of progress.reports) report({ done, rows })
          },
          pollEveryMs: deps.pollEveryMs,
        })
        release(summary.chargedMicros)
        return summary
      } catch (error) {
        runs.delete(output)
        const sentNothing = error instanceof CommandError || createdNoJob(error)
        if (sentNothing && guarded.createdMicros() === 0) release(0)
        throw error
      } finally {
        progress.ended = true
      }
    }
    const summary = verify()
    // The call that waits reports the error; without one the next call resumes the run.
    summary.catch(() => {})
    return { args: comparable(args, files), summary, progress }
  }

  const run = async (
    args: FileArgs, waitMs: number, report: ReportProgress = () => {}
  ): Promise<FileResult> => {
    const { folder, input, output } = findFiles(deps.folder, args.file)
    const earlier = runs.get(output)
    const isReplaced = earlier?.progress.ended === true && args.replace === true
    if (earlier === undefined || isReplaced) checkOutput({ folder, output }, args)
    const current = earlier === undefined || isReplaced
      ? start(args, { folder, input, output })
      : earlier
    if (current.args !== comparable(args, { input })) {
      throw new CommandError(`${args.file} was verified with other arguments. Repeat them to get ` +
        'the result, or set replace to true once it has ended, which may pay again.')
    }
    runs.set(output, current)
    return toResult(join(folder, output), current, await summaryWithin(current, waitMs, report))
  }
  return { run }
}

/** Undefined if the run takes longer. Reports its progress meanwhile. */
async function summaryWithin (
  { summary, progress: { reports } }: FileRun, waitMs: number, report: ReportProgress
): Promise<SubmitSummary | undefined> {
  const timer = new AbortController()
  const timeout = delay(waitMs, undefined, { signal: timer.signal }).catch(() => undefined)
  reports.add(report)
  return await Promise.race([summary, timeout]).finally(() => {
    timer.abort()
    reports.delete(report)
  })
}

const comparable = (
  { replace: _, wait_seconds: __, ...args }: FileArgs, { input }: Pick<RunFiles, 'input'>
) => JSON.stringify({ ...args, file: input })

function toResult (
  output: string, { progress }: FileRun, summary: SubmitSummary | undefined
): FileResult {
  return {
    ended: summary !== undefined,
    output,
    rows: summary?.rows ?? progress.rows,
    doneRows: summary?.rows ?? progress.done,
    byStatus: summary?.byStatus ?? {},
    jobs: summary?.jobs.map(({ id }) => id) ?? [],
    chargedMicros: summary?.chargedMicros ?? 0,
  }
}

/** The real path of the folder, and paths below it. */
type RunFiles = { readonly folder: string, readonly input: string, readonly output: string }

/** Finds the files of a run. Throws CommandError unless the input exists below the folder. */
function findFiles (root: string, file: string): RunFiles {
  const folder = realpathSync(root)
  // The names of a file that has several are one run.
  const input = relative(folder, resolveBelow(root, file)) || '.'
  return { folder, input, output: input.replace(/(\.csv)?$/i, '.verified.csv') }
}

function checkOutput (
  { folder: below, output }: Omit<RunFiles, 'input'>, { file, replace }: FileArgs
): void {
  const folder = new OutputFolder(dirname(output), below)
  try {
    const name = basename(output)
    if (replace === true || !folder.has(name) || folder.has(stateFileName(name))) return
    throw new CommandError(`${output} exists already: it has the results of an earlier run of ` +
      `${file}. Read it, or set replace to true, which replaces it and may pay again.`)
  } finally {
    folder.close()
  }
}

async function toSettings (
  { account }: SessionDeps, args: FileArgs, files: RunFiles
): Promise<SubmitSettings> {
  const { column, country } = args
  return {
    ...files,
    service: args.service ?? await detectService(files.input, { ...files, column }),
    column,
    country: country?.toUpperCase(),
    metadata: {},
    forceFresh: args.force_fresh === true,
    guarded: false,
    rowsPerJob: ROWS_PER_JOB,
    parallel: PARALLEL_JOBS,
    restart: args.replace === true,
    yes: true,
    account,
  }
}

/** A client that cancels a job whose price has risen above what the session may spend. */
function guardedClient (client: Client, reservation: Reservation) {
  let createdMicros = 0
  const guarded: Client = {
    ...client,
    createJob: async (body, key) => {
      const created = await client.createJob(body, key)
      createdMicros += created.preflight.maxQuoteMicros
      await coverOrCancel({ client, reservation }, created.id, createdMicros)
      return created
    },
  }
  return { client: guarded, createdMicros: () => createdMicros }
}

type Covered = { readonly client: Client, readonly reservation: Reservation }

/** Raises a reservation to the price of a created job, or cancels the job and throws. */
export async function coverOrCancel (
  { client, reservation }: Covered, id: string, micros: number
): Promise<void> {
  try {
    reservation.cover(micros)
  } catch (error) {
    await client.cancel(id)
    throw error
  }
}
