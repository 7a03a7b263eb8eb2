import { execFileSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import type { JobBody } from '../../schemas/api/job.ts'
import type { OutputFolder } from './files.ts'
import { CommandError } from './terminal.ts'
import type { Account } from './connection.ts'
import type { FileFacts, Plan, RowRange } from './plan.ts'

/** The outcome of a job, from its status resource. */
type JobEnd = Pick<JobBody,
  'status' | 'successRecords' | 'failedRecords' | 'chargedMicros' | 'releasedMicros'>

/** A range of rows and the job that verifies them. */
export type RunJob = RowRange & {
  /** Generated before the first POST, so that a retry never creates a second job. */
  readonly idempotencyKey: string
  /** The maximum price that the user confirmed. */
  readonly confirmedMicros?: number
  /** Time of the first POST that may have created a job. Written to disk before the POST. */
  readonly sentAtMs?: number | undefined
  /** The id that the service gave to the job. */
  readonly id?: string
  readonly end?: JobEnd
}

/** The options that determine what is sent, by name. They must not change during a run. */
export type RunOptions = Readonly<Record<string, string>>

/** The process that owns a run. Its start time distinguishes it from a later one with its id. */
type RunLock = { readonly pid: number, readonly started: string }

/** Everything needed to resume a run after a crash. */
export type RunState = {
  readonly version: 1
  readonly file: FileFacts
  readonly options: RunOptions
  readonly account: Account
  readonly plan: Omit<Plan, 'ranges'>
  readonly jobs: readonly RunJob[]
  readonly joined: Joined
  readonly lock: RunLock
}

/** The complete part of the unfinished output. */
export type Joined = {
  readonly jobs: number
  readonly bytes: number
  /** The appended columns, by their names in the results. */
  readonly columns: readonly string[]
  readonly byStatus: Readonly<Record<string, number>>
}

export type RunStore = {
  readonly state: () => RunState
  readonly update: (change: Partial<RunState>) => void
  readonly updateJob: (index: number, change: Partial<RunJob>) => void
  readonly remove: () => void
}

export const NOTHING_JOINED: Joined = { jobs: 0, bytes: 0, columns: [], byStatus: {} }

/** Creates the state of a new run, with an idempotency key for each job. */
export function newState (
  about: Pick<RunState, 'file' | 'options' | 'account'>, { ranges, ...plan }: Plan
): RunState {
  const jobs = ranges.map(range => ({ ...range, idempotencyKey: randomUUID() }))
  return { version: 1, ...about, plan, jobs, joined: NOTHING_JOINED, lock: ownLock() }
}

/**
 * Reads the state of an earlier run; undefined when there is none. Throws CommandError when the
 * file is damaged or was written by another release.
 */
export function readState (folder: OutputFolder, name: string): RunState | undefined {
  const text = folder.readText(name)
  if (text === undefined) return undefined
  try {
    const state = JSON.parse(text) as RunState
    if (state.version === 1) return state
  } catch {
    // Damaged: reported below.
  }
  throw new CommandError(`${folder.pathOf(name)} is damaged or was written by another release. ` +
    'It prevents a second payment: resume with the release that wrote it, or start over ' +
    'with --restart.')
}

/**
 * Opens the state file, creating it for a new run, and locks it for this process. Every update is
 * durable when it returns. Throws CommandError while another process runs on the same file.
 */
export function openRunStore (
  folder: OutputFolder, name: string, initial: RunState
): RunStore {
  let state = initial
  const text = () => `${JSON.stringify(state, null, 2)}\n`
  const save = () => { folder.writePrivate(name, text()) }
  if (folder.has(name)) {
    checkLock(folder.pathOf(name), state.lock)
    state = { ...state, lock: ownLock() }
    save()
  } else if (!folder.createPrivate(name, text())) {
    throw new CommandError(`Another process has just created ${folder.pathOf(name)}. Run the ` +
      'command again.')
  }
  return {
    state: () => state,
    update: change => {
      state = { ...state, ...change }
      save()
    },
    updateJob: (index, change) => {
      const jobs = state.jobs.map((job, at) => at === index ? { ...job, ...change } : job)
      state = { ...state, jobs }
      save()
    },
    remove: () => { folder.remove(name) },
  }
}

/** Throws CommandError when another running process owns the run. */
export function checkLock (file: string, lock: RunLock): void {
  if (!isLockedElsewhere(lock)) return
  throw new CommandError(`Process ${lock.pid} already works on this output (${file}). Wait until ` +
    'it ends, or stop it, and run the command again to resume.')
}

/** The lock of this process. */
export function ownLock (): RunLock {
  return { pid: process.pid, started: startTime(process.pid) }
}

/** Whether another process holds the lock and is still running. */
export function isLockedElsewhere (lock: RunLock): boolean {
  if (lock.pid === process.pid) return false
  try {
    process.kill(lock.pid, 0)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EPERM') return false
  }
  return startTime(lock.pid) === lock.started
}

/** Empty on machines without `ps`: then only the process id counts. */
function startTime (pid: number): string {
  try {
    const words = ['-o', 'lstart=', '-p', String(pid)]
    return execFileSync('ps', words, { stdio: ['ignore', 'pipe', 'ignore'] }).toString().trim()
  } catch {
    return ''
  }
}
