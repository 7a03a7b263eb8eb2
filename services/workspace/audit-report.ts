import { invariantOf } from './audit-invariants.ts'

/** Something that must never be: which law, where, and the amounts that differ. */
export type Breach = {
  readonly tenant: string
  /** Empty when no single job is concerned. */
  readonly job: string
  readonly law: string
  readonly detail: string
}

/** What was looked at of a tenant; amounts in USD micros. */
export type TenantReport = {
  readonly tenant: string
  readonly availableMicros: number
  readonly reservedMicros: number
  readonly chargedMicros: number
  readonly fundedMicros: number
  readonly entries: number
  readonly openJobs: number
  readonly closedJobs: number
  readonly rows: number
  readonly breaches: number
  /** Every movement in words, when it was asked for. */
  readonly explained?: readonly string[]
}

export type AuditReport = {
  readonly ok: boolean
  readonly tenants: readonly TenantReport[]
  readonly breaches: readonly Breach[]
}

/** Says whether a law holds: nothing, or one breach of it. */
export function breachUnless (
  holds: boolean, breach: { readonly law: string, readonly detail: string, readonly job?: string }
): readonly Omit<Breach, 'tenant'>[] {
  return holds ? [] : [{ job: '', ...breach }]
}

const COLUMNS = [
  'tenant', 'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros', 'entries',
  'openJobs', 'closedJobs', 'rows', 'breaches',
] as const satisfies readonly (keyof TenantReport)[]

/** The report as a table for people, breaches below it. */
export function auditTable ({ tenants, breaches }: AuditReport): string {
  const lines = [COLUMNS, ...tenants.map(tenant => COLUMNS.map(name => String(tenant[name])))]
  const widths = COLUMNS.map((_, column) =>
    Math.max(...lines.map(line => line[column]?.length ?? 0)))
  const table = lines.map(line => line.map((cell, column) => column === 0
    ? cell.padEnd(widths[column] ?? 0)
    : cell.padStart(widths[column] ?? 0)).join('  '))
  const found = breaches.map(({ tenant, job, law, detail }) =>
    `BREACH ${[invariantOf(law), tenant, job, law].filter(text => text !== '').join(' ')}: ` +
    detail)
  const words = tenants.flatMap(({ tenant, explained = [] }) =>
    explained.map(line => `${tenant} ${line}`))
  const end = breaches.length === 0 ? 'no breaches' : ''
  return [...table, ...words, ...found, end].join('\n').trimEnd()
}
