import { isMode, MODES, type Mode } from '../accounts/tenant.ts'
import { UsageError } from '../lib/run-command.ts'
import type { WorkspaceParts } from './parts.ts'

/** What a task shows: names and values, for people line by line, for scripts as JSON. */
export type Shown = Readonly<Record<string, unknown>>

/** Options of the command line: texts, as they were typed. */
export type Options = Readonly<Record<string, string>>

export type Task = (parts: WorkspaceParts, options: Options) => Promise<Shown>

/** The id of the organization that is named; throws UsageError when there is none. */
export async function organizationOf (
  { organizations }: Pick<WorkspaceParts, 'organizations'>, options: Options
): Promise<string> {
  const organization = await organizations.find(options.org ?? '')
  if (organization === undefined) throw new UsageError(`There is no organization ${options.org}.`)
  return organization.id
}

/** The mode that is named; throws UsageError for any other text. */
export function modeOf ({ mode = '' }: Options): Mode {
  if (!isMode(mode)) throw new UsageError(`--mode is one of ${MODES.join(', ')}.`)
  return mode
}

export const HOUR_MS = 3_600_000

/** The hours of grace in `--grace-hours`; throws UsageError for any other text. */
export function hoursOf (text: string | undefined): number {
  const hours = Number(text)
  if (Number.isFinite(hours) && hours >= 0) return hours
  throw new UsageError('--grace-hours is a number from 0.')
}

/** ISO 8601 for people; null for 0, which stands for never. */
export function timeOf (ms: number): string | null {
  return ms === 0 ? null : new Date(ms).toISOString()
}
