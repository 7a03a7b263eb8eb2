import Type from 'typebox'
import { ACCESS_CHAIN } from '../../accounts/access-log/copy.ts'
import { connectOrganizationKeys } from '../../accounts/connect-organization-keys.ts'
import { createJobKeys } from '../../jobs/job-keys.ts'
import { closedKeys } from '../../jobs/wrapped-keys.ts'
import type { Environment } from '../../runtime/platform/command-environment.ts'
import {
  clickhouseKeys, commonConfig, loadConfig, messageKeys, pick, registryKeys, rootKeys, stateKeys,
} from '../../runtime/platform/config.ts'
import { withAccessLog } from '../access-log.ts'
import { withStores } from '../deps.ts'
import { audit, type AuditOptions, recordsSince } from './audit.ts'
import { auditIncrementally, createAuditDeps, createPosition } from './incremental.ts'
import { createKafkaJournal, readExportedHeads } from './journals.ts'
import type { AuditReport } from './report.ts'

/** The settings of the command. */
export const auditConfig = Type.Object(pick(commonConfig, [
  ...messageKeys, ...registryKeys, ...stateKeys, ...clickhouseKeys,
  ...rootKeys.results, 'JOBS_KEEP_MONTHS',
]))

type CommandOptions = Omit<AuditOptions, 'heads'> & {
  /** A file of exported journal heads, one export per line. */
  readonly journalHead?: string
  /** Starts at the position of the last incremental audit, and stores its own end position. */
  readonly incremental?: boolean
  /** Receives progress messages, one line each. */
  readonly onProgress?: (line: string) => void
}

/**
 * `audit` on the stack in `env`. With `explain` or `journalHead` it holds the whole journal in
 * memory.
 * @throws ConfigError when a setting is missing, and UsageError for an invalid file of exported
 * heads.
 */
export async function runAudit (
  env: Environment,
  { journalHead, incremental = false, onProgress = () => {}, ...options }: CommandOptions = {}
) {
  const config = loadConfig(auditConfig, env)
  // Read before the journals, so that the journals contain everything that was exported.
  const exported = journalHead === undefined
    ? new Map()
    : await readExportedHeads(journalHead, config)
  const heads = new Map([...exported].filter(([chain]) => chain !== ACCESS_CHAIN))
  return await withStores(env, async stores => {
    const { redis, codec } = stores
    const keys = createJobKeys({
      redis,
      part: 'results',
      keys: connectOrganizationKeys('results', config, { state: redis }),
      findClosed: closedKeys(stores),
    })
    const kafka = createKafkaJournal(config, codec)
    const recordsSinceMs = recordsSince(config.JOBS_KEEP_MONTHS)
    const deps = { ...createAuditDeps({ ...stores, keys }), kafka, recordsSinceMs }
    // An audit of some tenants leaves the log of the whole installation out.
    const check = async (report: AuditReport) => options.only === undefined
      ? await withAccessLog(report, stores, exported.get(ACCESS_CHAIN))
      : report
    if (options.explain === true || journalHead !== undefined) {
      return await check(await audit(deps, { ...options, heads }))
    }
    const position = createPosition(redis, config)
    const from = incremental ? await position.read() : new Map()
    const { report, proven } = await auditIncrementally(deps, { ...options, from, onProgress })
    if (options.only === undefined) await position.write(proven)
    return await check(report)
  })
}
