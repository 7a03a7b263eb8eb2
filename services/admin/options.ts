import type { AccessDescription } from '../accounts/access-log/entry.ts'
import type { Organization } from '../accounts/organizations.ts'
import type { AccountRecords } from '../accounts/records.ts'
import { isMode, type Mode, MODES, tenantOf } from '../accounts/tenant.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import { paintFor, recordsText } from '../runtime/platform/text-table.ts'
import type { WorkspaceDeps } from './deps.ts'

/** What a task returns: printed as names and values, or as JSON. */
export type TaskResult = Readonly<Record<string, unknown>>

/** Receives the output of a command, one call per result or line. */
type Print = (text: string) => void

/** Prints one `name: value` line per field, with a table for a list of records, or JSON. */
export function printResult (print: Print, result: TaskResult, asJson: boolean): void {
  if (asJson) return print(JSON.stringify(result))
  for (const [name, value] of Object.entries(result)) {
    print(fieldText(name, value))
  }
}

function fieldText (name: string, value: unknown): string {
  if (!Array.isArray(value)) {
    return `${name}: ${typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value)}`
  }
  const all: readonly unknown[] = value
  if (all.length === 0) return `${name}: none`
  const records = all.filter(isRecord)
  return records.length === all.length
    ? `${name}:\n${recordsText(records, paintFor(process.stdout))}`
    : [`${name}:`, ...all.map(one => `  ${String(one)}`)].join('\n')
}

const isRecord = (value: unknown): value is TaskResult =>
  typeof value === 'object' && value !== null

/** Options of the command line, as typed. */
export type Options = Readonly<Record<string, string>>

/** One command that works on accounts and balances; throws UsageError for invalid options. */
export type Task = (deps: WorkspaceDeps, options: Options) => Promise<TaskResult>

type OrganizationDeps = Pick<WorkspaceDeps, 'organizations'>

/** Fields of results that the access log repeats, if a result has them. */
const DESCRIBED = ['posting', 'state', 'version'] as const

/** What the access log says of a result: the id of what the command made, and no secret. */
export function describeResult (result: TaskResult): AccessDescription {
  const { id, replaces } = result
  if (replaces !== undefined) return { details: { newKey: String(id) } }
  const details = DESCRIBED.flatMap(name =>
    result[name] === undefined ? [] : [[name, String(result[name])] as const])
  return { ...id !== undefined && { target: String(id) }, details: Object.fromEntries(details) }
}

/** The id in `--org`; throws UsageError when no such organization exists, or it was erased. */
export async function organizationOf (
  deps: OrganizationDeps, options: Options
): Promise<string> {
  const { id, erasedAtMs } = await findOrganization(deps, options)
  if (erasedAtMs === undefined) return id
  throw new UsageError(`organization ${id} was erased on ${timeOf(erasedAtMs)}; commands can ` +
    'only read what is left of it, and "org erase" completes an interrupted erasure.')
}

/**
 * The id in `--org`, of an erased organization too: for commands that only read, and those that
 * complete its erasure. Throws UsageError when no such organization exists.
 */
export async function organizationToRead (
  deps: OrganizationDeps, options: Options
): Promise<string> {
  return (await findOrganization(deps, options)).id
}

async function findOrganization (
  { organizations }: OrganizationDeps, { org = '' }: Options
): Promise<Organization> {
  const organization = await organizations.find(org)
  if (organization !== undefined) return organization
  throw new UsageError(`organization "${org}" does not exist. Pass the id that "org create" ` +
    'printed: --org <id>.')
}

/** The value of `--mode`; throws UsageError for any other text. */
export function modeOf ({ mode = '' }: Options): Mode {
  if (!isMode(mode)) {
    throw new UsageError(`--mode must be one of ${MODES.join(', ')}, not "${mode}".`)
  }
  return mode
}

/**
 * The tenant that `--org` and `--mode` name.
 * @throws UsageError when the organization does not exist or was erased, or the mode is invalid.
 */
export async function tenantFor (deps: WorkspaceDeps, options: Options): Promise<string> {
  return tenantOf(await organizationOf(deps, options), modeOf(options))
}

/** The tenant that `--org` and `--mode` name, as `organizationToRead`. */
export async function tenantToRead (deps: WorkspaceDeps, options: Options): Promise<string> {
  return tenantOf(await organizationToRead(deps, options), modeOf(options))
}

export const HOUR_MS = 3_600_000

/** The hours in `--grace-hours`; throws UsageError unless they are a number of at least 0. */
export function hoursOf (text: string | undefined): number {
  const hours = Number(text)
  if (Number.isFinite(hours) && hours >= 0) return hours
  throw new UsageError(`--grace-hours must be a number of at least 0, not "${text ?? ''}".`)
}

/** Unix milliseconds as ISO 8601; null for 0, which means never. */
export function timeOf (ms: number): string | null {
  return ms === 0 ? null : new Date(ms).toISOString()
}

/** Waits some seconds until account changes are in Kafka; returns a warning if they are not. */
export async function shippingWarning (
  accounts: Pick<AccountRecords, 'areShipped'>
): Promise<TaskResult> {
  if (await accounts.areShipped()) return {}
  return {
    warning: 'The change is stored in Redis but not yet in Kafka: it is lost if Redis loses its ' +
      'files now. The leading ledger copies it to the topic "accounts"; check that ledger runs.',
  }
}
