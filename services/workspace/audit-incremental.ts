import { createTenants } from '../money/tenants.ts'
import { createWallet } from '../money/wallet.ts'
import { audit, RESULTS_KEPT_MS, type AuditOptions } from './audit.ts'
import type { AuditCounts } from './audit-counts.ts'
import type { KafkaJournal } from './audit-kafka.ts'
import { startProgress, type Amount } from './audit-progress.ts'
import { prove, type Proof, type ProofParts, type Proven } from './audit-proof.ts'
import type { AuditReport } from './audit-report.ts'

export type IncrementalParts = ProofParts & {
  readonly counts: AuditCounts
  readonly kafka: KafkaJournal
}

export type IncrementalOptions = Pick<AuditOptions, 'only' | 'waitMs'> & {
  /** Where to go on, by tenant: those that are not there are read from their first entry. */
  readonly from: ReadonlyMap<string, Proven>
  /** Takes lines for whoever waits. */
  readonly say: (line: string) => void
}

/** Clocks of brokers and of Redis differ by less. */
const DAY_MS = 86_400_000

/**
 * Checks what must always hold of every tenant, beyond what was proven before, in bounded memory.
 * A tenant of whom anything does not hold is audited as a whole, for the report to name it: so a
 * position that is wrong leads to more reading. Returns the report and the heads that are proven
 * now.
 */
export async function auditIncrementally (
  parts: IncrementalParts, { only, waitMs = 10_000, from, say }: IncrementalOptions
): Promise<{ readonly report: AuditReport, readonly proven: ReadonlyMap<string, Proven> }> {
  const startedMs = Date.now()
  const tenants = only ?? (await createTenants(parts.redis).all()).toSorted()
  const onRead = startProgress(await amountOf(parts, tenants, from), { say })
  const proofs = new Map<string, Proof>()
  for (const tenant of tenants) {
    const proof = await prove(parts, tenant, { from: from.get(tenant), waitMs, onRead })
    if (proof !== undefined) proofs.set(tenant, proof)
  }
  const firstAtMs = [...proofs.values()]
    .reduce((first, proof) => Math.min(first, proof.firstAtMs), Infinity)
  const inKafka = await parts.kafka.follows(proofs, firstAtMs - DAY_MS)
  const doubtful = tenants.filter(tenant => !inKafka.has(tenant))
  if (doubtful.length > 0) {
    say(`reading ${doubtful.length} of ${tenants.length} tenants as a whole, as something does ` +
      'not hold or they do not come to rest')
  }
  const whole = await audit(parts, { only: doubtful, waitMs })
  const reports = new Map(whole.tenants.map(report => [report.tenant, report]))
  const proven = [...proofs].filter(([tenant, { head }]) => inKafka.has(tenant) && head.seq > 0)
    .map(([tenant, { head, before }]) => [tenant, { ...head, before, at: startedMs }] as const)
  return {
    report: {
      ...whole,
      tenants: tenants.flatMap(tenant =>
        reports.get(tenant) ?? proofs.get(tenant)?.report ?? []),
    },
    proven: new Map(proven),
  }
}

async function amountOf (
  { redis, counts }: IncrementalParts, tenants: readonly string[], from: IncrementalOptions['from']
): Promise<Amount & { readonly tenants: number }> {
  const wallet = createWallet(redis)
  let entries = 0
  for (const tenant of tenants) {
    const { seq } = await wallet.balance(tenant)
    entries += Math.max(seq - (from.get(tenant)?.seq ?? 0), 0)
  }
  const provenAtMs = [...from.values()][0]?.at ?? 0
  const rows = await counts.rowsSince(Math.max(provenAtMs, Date.now() - RESULTS_KEPT_MS))
  return { entries, rows, tenants: tenants.length }
}
