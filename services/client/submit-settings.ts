import type { Client } from './client.ts'
import type { Patience } from './patience.ts'
import type { JobRequest } from './request.ts'
import type { Account, RunOptions, RunStore } from './run-state.ts'
import type { SubmitProgress } from './submit-progress.ts'

/** What is to be done with which file, as the command line says it. */
export type SubmitSettings = {
  readonly input: string
  readonly output: string
  readonly service: string
  readonly column?: string | undefined
  readonly delimiter?: string | undefined
  readonly country?: string | undefined
  readonly forceFresh: boolean
  readonly metadata: Readonly<Record<string, string>>
  /** Verification columns, apart by commas; all when left out. */
  readonly only?: string | undefined
  /** Guards cells that a spreadsheet would run as formulas, original ones included. */
  readonly guarded: boolean
  readonly rowsPerJob: number
  /** Jobs of this run under way at a time. */
  readonly parallel: number
  readonly restart: boolean
  /** Agrees to the maximum price without being asked. */
  readonly yes: boolean
  readonly account: Account
}

export type SubmitParts = Patience & {
  readonly client: Client
  /** Asks yes or no; missing where nobody can answer. */
  readonly ask?: ((question: string) => Promise<boolean>) | undefined
  readonly progress?: (progress: SubmitProgress) => void
  readonly pollEveryMs?: number | undefined
  /** Told of the run once there is one, so that an interruption can say what goes on. */
  readonly onRun?: (store: RunStore) => void
  /** Replaced by tests. */
  readonly rename?: (from: string, to: string) => void
}

/** A run that is under way. */
export type Run = {
  readonly settings: SubmitSettings
  readonly parts: SubmitParts
  readonly store: RunStore
}

/** The file that a run is kept in, and the unfinished output. */
export const stateFileOf = (output: string) => `${output}.progress.json`
export const unfinishedFileOf = (output: string) => `${output}.part`

/** What may not change while a run is unfinished, by the names of the options. */
export function optionsOf (settings: SubmitSettings): RunOptions {
  return {
    '--service': settings.service,
    '--column': settings.column ?? '',
    '--delimiter': settings.delimiter ?? '',
    '--country': settings.country ?? '',
    '--force-fresh': String(settings.forceFresh),
    '--metadata': JSON.stringify(settings.metadata),
    '--only': settings.only ?? '',
    '--safe': settings.guarded ? 'spreadsheet' : '',
    '--rows-per-job': String(settings.rowsPerJob),
  }
}

/** The body of a job or a quote for these contacts. */
export function requestOf (settings: SubmitSettings, inputs: readonly string[]): JobRequest {
  const { service, country, forceFresh, metadata } = settings
  return {
    service,
    inputs,
    forceFresh,
    ...country !== undefined && { countryCode: country },
    ...Object.keys(metadata).length > 0 && { metadata },
  }
}
