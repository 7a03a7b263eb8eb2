import { ACCESS_CHAIN, walkAccessLog } from '../../accounts/access-log/walk.ts'
import type { ChainHead } from '../../money/journal-chain.ts'
import { accessWalkDeps } from '../access-log.ts'
import type { Stores } from '../stores.ts'
import type { AuditReport } from './report.ts'

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
