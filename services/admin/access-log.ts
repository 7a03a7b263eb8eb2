import {
  ACCESS_COLUMNS, accessRecord, createAccessHead, INSTALLATION, type NumberedEntry,
} from '../accounts/access-log/access-log.ts'
import { ACCESS_CHAIN, createAccessCopy, walkAccessLog } from '../accounts/access-log/copy.ts'
import { createOrganizations, type Organizations } from '../accounts/organizations.ts'
import { guardedLine } from '../jobs/results/csv.ts'
import type { ChainHead } from '../money/journal.ts'
import type { Environment } from '../runtime/platform/command-environment.ts'
import { UsageError } from '../runtime/platform/run-command.ts'
import type { AuditReport } from './audit/report.ts'
import { organizationToRead } from './command-line.ts'
import { type Stores, withStores } from './deps.ts'

type ExportOptions = {
  readonly org?: string
  readonly since?: string
  readonly format?: string
}

/** What was exported, and whether the whole log is complete and unchanged. */
type ExportedAccess = {
  readonly entries: number
  readonly holds: boolean
  /** The number and the hash of the last entry of the log. */
  readonly head: { readonly seq: number, readonly hash: string }
  readonly findings: readonly string[]
}

/** The connections with which the access log is checked. */
function accessWalkDeps (
  { read, codec, clickhouse, recordMac, redis }: Omit<Stores, 'bus' | 'keyCopy' | 'producer'>
) {
  const copy = createAccessCopy(clickhouse, recordMac)
  return { read, codec, copy, head: createAccessHead(redis) }
}

/**
 * Passes the entries of an organization, or of the installation, to `print`, oldest first, each
 * with the hash of the chain up to it. Those of an organization that does not exist, such as of a
 * refused `org create`, belong to the installation. Reads and checks the whole log.
 * @throws UsageError for an unknown organization, format or time.
 */
export async function exportAccessLog (
  env: Environment, options: ExportOptions, print: (text: string) => void
): Promise<ExportedAccess> {
  const { since, format = 'csv', org = '' } = options
  const sinceMs = since === undefined ? 0 : Date.parse(since)
  if (Number.isNaN(sinceMs)) {
    throw new UsageError(`--since must be a time like 2026-11-01T00:00:00Z, not "${since}".`)
  }
  if (format !== 'csv' && format !== 'ndjson') {
    throw new UsageError(`--format must be csv or ndjson, not "${format}".`)
  }
  return await withStores(env, async stores => {
    const isWanted = await createFilter(createOrganizations(stores.redis), org)
    const lines = createLines(format, print)
    const seen = new Set<string>()
    const { head, findings } = await walkAccessLog(accessWalkDeps(stores), {
      onEntry: (entry, hash) => {
        if (!isWanted(entry) || entry.at < sinceMs || seen.has(entry.entryId)) return
        seen.add(entry.entryId)
        lines.add(entry, hash)
      },
    })
    return {
      entries: seen.size,
      holds: findings.length === 0,
      head: { seq: head.seq, hash: head.hash },
      findings: findings.map(({ rule, detail }) => `${rule}: ${detail}`),
    }
  })
}

/** Whether an entry is of the organization, or of the installation. Throws as the export. */
async function createFilter (
  organizations: Organizations, org: string
): Promise<(entry: NumberedEntry) => boolean> {
  if (org !== INSTALLATION) {
    await organizationToRead({ organizations }, { org })
    return ({ organization }) => organization === org
  }
  const all = new Set((await organizations.list()).map(({ id }) => id))
  return ({ organization }) => !all.has(organization)
}

/** Prints entries in a format; the first line of CSV has the names of its columns. */
function createLines (format: 'csv' | 'ndjson', print: (text: string) => void) {
  const csv = (cells: readonly string[]) => print(guardedLine(cells).trimEnd())
  if (format === 'csv') csv([...ACCESS_COLUMNS, 'hash'])
  return {
    add: (entry: NumberedEntry, hash: string): void => {
      const record = { ...accessRecord(entry), hash }
      if (format === 'csv') csv(Object.values(record))
      else print(JSON.stringify(record))
    },
  }
}

/** The result in one sentence for the operator, and what is wrong. */
export function exportedText ({ entries, head, findings }: ExportedAccess): string {
  const what = `${entries} entries exported; the access log has ${head.seq}, the last hash is ` +
    `${head.hash}.`
  return findings.length === 0
    ? `${what} Its chain holds.`
    : [`${what} Its chain does not hold:`, ...findings].join('\n')
}

/** The report with what is wrong with the access log, which is always read completely. */
export async function withAccessLog (
  report: AuditReport, stores: Stores, exported: ChainHead | undefined
): Promise<AuditReport> {
  const { head, findings } = await walkAccessLog(accessWalkDeps(stores), { exported })
  const breaches = findings.map(finding => ({ tenant: ACCESS_CHAIN, job: '', ...finding }))
  return {
    ...report,
    ok: report.ok && breaches.length === 0,
    breaches: [...report.breaches, ...breaches],
    accessLog: { entries: head.seq, hash: head.hash },
  }
}
