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
import {
  type AdminCommand, type Context, type Options, organizationToRead, readCall,
} from './command-line.ts'
import { type Stores, withStores } from './deps.ts'

/** Adds `access-log`. */
export function addAccessLog (program: AdminCommand, { print }: Context): void {
  program.command('access-log').description('export the access log of an organization, and check ' +
    'that it is complete and unchanged')
    .records('access_log.exported')
    .requiredOption('--org <id>', 'organization, or "installation" for commands of operators ' +
      'that concern none')
    .option('--since <time>', 'only entries since then, as an ISO 8601 time')
    .option('--format <format>', 'csv or ndjson', 'csv')
    .example('--org org_1 --since 2030-01-01T00:00:00Z > access-log.csv')
    .action(async (_options: object, command: AdminCommand) => {
      const { env, options } = readCall<Options>(command)
      const { text, holds } = await exportAccessLog(env, options, print)
      console.error(text)
      if (!holds) process.exitCode = 1
    })
}

/**
 * Passes the entries of an organization, or of the installation, to `print`, oldest first, each
 * with the hash of the chain up to it. Those of an organization that does not exist, such as of a
 * refused `org create`, belong to the installation. Reads and checks the whole log. Returns what to
 * say about it, and whether it is complete and unchanged.
 * @throws UsageError for an unknown organization, format or time.
 */
async function exportAccessLog (
  env: Environment, { since, format, org = '' }: Options, print: Context['print']
): Promise<{ readonly text: string, readonly holds: boolean }> {
  const sinceMs = since === undefined ? 0 : Date.parse(since)
  if (Number.isNaN(sinceMs)) {
    throw new UsageError(`--since must be a time like 2026-11-01T00:00:00Z, not "${since}".`)
  }
  if (format !== 'csv' && format !== 'ndjson') {
    throw new UsageError(`--format must be csv or ndjson, not "${format}".`)
  }
  return await withStores(env, async stores => {
    const isWanted = await createFilter(createOrganizations(stores.redis), org)
    const printLine = (cells: readonly string[]) => print(guardedLine(cells).trimEnd())
    if (format === 'csv') printLine([...ACCESS_COLUMNS, 'hash'])
    const seen = new Set<string>()
    const { head, findings } = await walkAccessLog(accessWalkDeps(stores), {
      onEntry: (entry, hash) => {
        if (!isWanted(entry) || entry.at < sinceMs || seen.has(entry.entryId)) return
        seen.add(entry.entryId)
        const record = { ...accessRecord(entry), hash }
        if (format === 'csv') printLine(Object.values(record))
        else print(JSON.stringify(record))
      },
    })
    const what = `${seen.size} entries exported; the access log has ${head.seq}, the last hash ` +
      `is ${head.hash}.`
    const problems = findings.map(({ rule, detail }) => `${rule}: ${detail}`)
    return problems.length === 0
      ? { text: `${what} Its chain holds.`, holds: true }
      : { text: [`${what} Its chain does not hold:`, ...problems].join('\n'), holds: false }
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

/** The connections with which the access log is checked. */
function accessWalkDeps ({ read, codec, clickhouse, recordMac, redis }: Stores) {
  const copy = createAccessCopy(clickhouse, recordMac)
  return { read, codec, copy, head: createAccessHead(redis) }
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
