import { ACCESS_RULES } from '../../accounts/access-log/copy.ts'
import { counted } from '../../client/terminal.ts'
import { tableText, unpainted, type Column } from '../../runtime/platform/text-table.ts'

/** A rule that does not hold: for which tenant and job, with the values that differ. */
export type Breach = {
  /** Empty when the breach concerns no single tenant. */
  readonly tenant: string
  /** Empty when the breach concerns no single job. */
  readonly job: string
  readonly rule: string
  readonly detail: string
}

/** A breach as it was found; `lack` is the missing key due to which results cannot be read. */
export type FoundBreach = Breach & { readonly lack?: string }

/** The breaches of one tenant. */
export type TenantBreaches = readonly Omit<FoundBreach, 'tenant'>[]

/** What the audit read of a tenant; amounts in USD micros. */
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
  /** Numbers with several entries, each of whose movements counts once by a later entry. */
  readonly resolvedContradictions?: number
  /** Every movement in words, if requested. */
  readonly explained?: readonly string[]
}

export type AuditReport = {
  readonly ok: boolean
  readonly tenants: readonly TenantReport[]
  readonly breaches: readonly Breach[]
  /** The length of the access log and its last hash, if it was checked. */
  readonly accessLog?: { readonly entries: number, readonly hash: string }
}

/** What must always hold for money and jobs, by the id that reports and documents use. */
type Invariant = {
  readonly id: string
  readonly statement: string
  /** The rules that checks report when the invariant does not hold. */
  readonly rules: readonly string[]
}

const INVARIANTS: readonly Invariant[] = [
  {
    id: 'I1',
    statement: 'The available, reserved and charged amounts add up to the funded amount.',
    rules: [
      'available + reserved + charged = funded',
      'reserved = maximum quotes of jobs that have not ended',
    ],
  },
  { id: 'I2', statement: 'No amount is below zero.', rules: ['no amount is below zero'] },
  {
    id: 'I3',
    statement: 'The journal has no gap, its entry ids are unique, and its entries are signed.',
    rules: [
      'the journal is numbered 1 to n', 'every movement is in the journal',
      'every entry has a unique id', 'every row of the copy is signed by a service',
      'the journal contains the exported head',
    ],
  },
  {
    id: 'I4',
    statement: 'Each job has one reserve entry, and one settle or void entry once it has ended.',
    rules: [
      'every reservation has a job', 'one reserve of the maximum quote per job',
      'one settle or void per ended job, none before',
    ],
  },
  {
    id: 'I5',
    statement: 'A charge is within the quote, and the rest is released.',
    rules: ['charge within the quote, the rest released', 'charged + released = reserved'],
  },
  {
    id: 'I6',
    statement: 'A charge is the number of billable rows in the result file times the price.',
    rules: ['charge = billable rows x unit price'],
  },
  {
    id: 'I7',
    statement: 'A result file has every row once, in order, and matches the counts of its job.',
    rules: [
      'every row once, in order', 'results are readable', 'successRecords = rows with a verdict',
      'successRecords + failedRecords = totalRows',
      'each counter = its rows by source', 'verdicts and reasons = rows of each',
    ],
  },
  {
    id: 'I8',
    statement: 'Redis, the journal in Kafka and its copy in ClickHouse agree.',
    rules: [
      'the journal adds up to the balances', 'each entry adds up to the balances it states',
      'Kafka and the copy have the same entries',
    ],
  },
  {
    id: 'I9',
    statement: 'Every accepted job ends.',
    rules: ['every job ends within a day of its deadline'],
  },
  {
    id: 'I10',
    statement: 'An Idempotency-Key creates one job in 24 hours.',
    rules: ['one job per Idempotency-Key in 24 hours'],
  },
  {
    id: 'I11',
    statement: 'Exactly the running jobs with fresh rows hold a slot.',
    rules: ['exactly the running jobs with fresh rows hold a slot'],
  },
  {
    id: 'I12',
    statement: 'Deliveries are of events of their job, one for its end, and they end.',
    rules: ['deliveries are of events of their job', 'every delivery ends'],
  },
  {
    id: 'I13',
    statement: 'The access log has no gap, its entries are signed, and its stores agree.',
    rules: Object.values(ACCESS_RULES),
  },
]

/** Returns no breach when `holds` is true, else the one that is passed. */
export function breachUnless (
  holds: boolean, breach: { readonly rule: string, readonly detail: string, readonly job?: string }
): TenantBreaches {
  return holds ? [] : [{ job: '', ...breach }]
}

const SHOWN_JOBS = 3

/** Joins the jobs whose results lack the same key into one breach, which names the key. */
export function joinMissingKeys (breaches: readonly FoundBreach[]): readonly Breach[] {
  const byLack = Map.groupBy(breaches, ({ lack }) => lack)
  const others = byLack.get(undefined) ?? []
  byLack.delete(undefined)
  return [...others, ...[...byLack].map(([lack, lacking]) => {
    const shown = lacking.slice(0, SHOWN_JOBS).map(({ job }) => job).join(', ')
    const more = lacking.length > SHOWN_JOBS ? ` and ${lacking.length - SHOWN_JOBS} more` : ''
    const detail = `results of ${shown}${more} cannot be checked: ${lack}`
    return { tenant: '', job: '', rule: 'results are readable', detail }
  })]
}

/** All invariants, one line each, for the help text of the command. */
export function invariantsText (): string {
  const lines = INVARIANTS.map(({ id, statement }) => `  ${id.padEnd(4)} ${statement}`)
  return ['', 'Invariants:', ...lines].join('\n')
}

const COLUMNS = [
  'tenant', 'availableMicros', 'reservedMicros', 'chargedMicros', 'fundedMicros', 'entries',
  'openJobs', 'closedJobs', 'rows', 'breaches',
] as const satisfies readonly (keyof TenantReport)[]

/**
 * The report as text: a table of tenants, then movements in words, then breaches. One that is not
 * complete says that it read only what is new.
 */
export function auditTable (
  { tenants, breaches, accessLog }: AuditReport, isComplete: boolean
): string {
  const columns = COLUMNS.map((title): Column =>
    title === 'tenant' ? { title } : { title, right: true })
  const table = tableText(
    columns, tenants.map(tenant => COLUMNS.map(name => String(tenant[name]))), unpainted)
  const movements = tenants.flatMap(({ tenant, explained = [] }) =>
    explained.map(line => `${tenant} ${line}`))
  const resolved = tenants.flatMap(({ tenant, resolvedContradictions: numbers = 0 }) =>
    numbers === 0 ? [] : [`${tenant} has ${counted(numbers, 'resolved contradiction')}`])
  const breachLines = breaches.map(({ tenant, job, rule, detail }) => {
    const id = INVARIANTS.find(({ rules }) => rules.includes(rule))?.id ?? '-'
    return `BREACH ${[id, tenant, job, rule].filter(text => text !== '').join(' ')}: ${detail}`
  })
  const log = accessLog === undefined
    ? []
    : [`access log: ${accessLog.entries} entries, the last hash is ${accessLog.hash}`]
  const none = isComplete
    ? 'no breaches'
    : 'no breaches in what is new since the last audit; --full reads everything'
  const verdict = breaches.length === 0 ? [none] : breachLines
  return [table, ...movements, ...resolved, ...log, ...verdict].join('\n')
}
