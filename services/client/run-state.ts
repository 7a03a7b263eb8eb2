import { randomUUID } from 'node:crypto'
import { existsSync, linkSync, readFileSync, rmSync } from 'node:fs'
import type { JobBody } from '../../schemas/api/job.ts'
import { CommandError } from './command-error.ts'
import { ownHolder, runsElsewhere, type Holder } from './holder.ts'
import type { FileFacts, Plan, Slice } from './plan.ts'
import { writePrivately } from './private-file.ts'

/** What became of a job, as its status resource tells it. */
export type JobEnd = Pick<JobBody,
  'status' | 'successRecords' | 'failedRecords' | 'chargedMicros' | 'releasedMicros'>

/** A slice of the file and its job. */
export type Part = Slice & {
  /** Made before the first POST, so that the job is made once. */
  readonly idempotencyKey: string
  /** The maximum price that was agreed to; missing before anyone did. */
  readonly agreedMicros?: number
  /** When the first POST began that may have made a job; written down before it is made. */
  readonly sentAtMs?: number | undefined
  readonly job?: string
  readonly end?: JobEnd
}

/** What decides which rows are sent how, as it is told when it changes. */
export type RunOptions = Readonly<Record<string, string>>

export type Account = {
  readonly baseUrl: string
  /** The beginning of a digest of the key. */
  readonly key: string
}

/** All that a run has to know to go on after it was ended. */
export type RunState = {
  readonly version: 1
  readonly file: FileFacts
  readonly options: RunOptions
  readonly account: Account
  readonly plan: Omit<Plan, 'slices'>
  readonly parts: readonly Part[]
  readonly joined: Joined
  readonly holder: Holder
}

/** How much of the result stands complete in the unfinished file. */
export type Joined = {
  readonly parts: number
  readonly bytes: number
  /** The verification columns, as they are called in results. */
  readonly columns: readonly string[]
  readonly byStatus: Readonly<Record<string, number>>
}

export type RunStore = {
  readonly state: () => RunState
  readonly update: (change: Partial<RunState>) => void
  readonly updatePart: (index: number, change: Partial<Part>) => void
  readonly remove: () => void
}

export const NOTHING_JOINED: Joined = { parts: 0, bytes: 0, columns: [], byStatus: {} }

/** The state of a run that begins. */
export function newState (
  about: Pick<RunState, 'file' | 'options' | 'account'>, { slices, ...plan }: Plan
): RunState {
  const parts = slices.map(slice => ({ ...slice, idempotencyKey: randomUUID() }))
  return { version: 1, ...about, plan, parts, joined: NOTHING_JOINED, holder: ownHolder() }
}

/** The state that an earlier run left, or undefined. Throws CommandError when it can't be read. */
export function readState (file: string): RunState | undefined {
  if (!existsSync(file)) return undefined
  try {
    const state = JSON.parse(readFileSync(file, 'utf8')) as RunState
    if (state.version === 1) return state
  } catch {
    // Told below, as for a file of another release.
  }
  throw new CommandError(`${file} is not what this release wrote. It keeps a run ` +
    'from paying twice: go on with the release that wrote it, or begin anew with --restart.')
}

/**
 * Takes a run up, or begins it. Throws CommandError while another process is at it: both would
 * write the same file.
 */
export function openRunStore (file: string, initial: RunState): RunStore {
  let state = initial
  const save = () => writePrivately(file, `${JSON.stringify(state, null, 2)}\n`)
  if (existsSync(file)) {
    refuseSecond(file, state.holder)
    state = { ...state, holder: ownHolder() }
    save()
  } else {
    createOnce(file, `${JSON.stringify(state, null, 2)}\n`)
  }
  return {
    state: () => state,
    update: change => {
      state = { ...state, ...change }
      save()
    },
    updatePart: (index, change) => {
      const parts = state.parts.map((part, at) => at === index ? { ...part, ...change } : part)
      state = { ...state, parts }
      save()
    },
    remove: () => rmSync(file, { force: true }),
  }
}

/** Throws CommandError when the process that is at a run still lives. */
export function refuseSecond (file: string, holder: Holder): void {
  if (!runsElsewhere(holder)) return
  throw new CommandError(`Process ${holder.pid} is at this file already (${file}). Wait until it ` +
    'is done, or end it and run the command again, which then goes on.')
}

/** Of two runs that begin at once only one creates the file. */
function createOnce (file: string, text: string): void {
  const own = `${file}.${process.pid}`
  writePrivately(own, text)
  try {
    linkSync(own, file)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    throw new CommandError(`Another run has just begun ${file}. Run the command again.`)
  } finally {
    rmSync(own)
  }
}
