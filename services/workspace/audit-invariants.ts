/** What must always hold of money and jobs, by the names people know it by. */
export type Invariant = {
  readonly id: string
  readonly says: string
  /** How the checks name what they found broken of it. */
  readonly laws: readonly string[]
}

export const INVARIANTS: readonly Invariant[] = [
  {
    id: 'I1',
    says: 'What is available, reserved and charged adds up to what was funded.',
    laws: [
      'available + reserved + charged = funded',
      'reserved = maximum quotes of jobs that have not ended',
    ],
  },
  { id: 'I2', says: 'No amount is below zero.', laws: ['no amount is below zero'] },
  {
    id: 'I3',
    says: 'The journal is numbered without a gap, its ids are unique, its entries are signed.',
    laws: [
      'the journal is numbered 1 to n', 'every movement is in the journal',
      'every entry has an id of its own', 'every row of the copy is signed by a service',
      'the journal contains the exported head',
    ],
  },
  {
    id: 'I4',
    says: 'Each job has one reserve, and one settle or void once it has ended.',
    laws: [
      'every reservation has its job', 'one reserve of the maximum quote a job',
      'one settle or void for a job that has ended, none before',
    ],
  },
  {
    id: 'I5',
    says: 'A charge is within the quote, and the rest is released.',
    laws: ['charge within the quote, the rest released', 'charged + released = reserved'],
  },
  {
    id: 'I6',
    says: 'A charge is the billable rows of the result file times the frozen price.',
    laws: ['charge = billable rows x unit price'],
  },
  {
    id: 'I7',
    says: 'A result file has every row once, in order, and the counts of its job.',
    laws: [
      'every row once, in order', 'results can be read', 'successRecords = rows with a verdict',
      'successRecords + failedRecords = totalRows',
      'cacheHits + freshRecords + invalidRows + duplicateRows = totalRows',
    ],
  },
  {
    id: 'I8',
    says: 'Redis, the journal in Kafka and its copy in ClickHouse tell the same.',
    laws: [
      'the journal leads to the balances', 'each entry leads to the balances it names',
      'Kafka and the copy have the same entries',
    ],
  },
  { id: 'I9', says: 'Every accepted job comes to its end.', laws: ['every job ends within a day'] },
  {
    id: 'I10',
    says: 'An Idempotency-Key has one job in 24 hours.',
    laws: ['one job an Idempotency-Key'],
  },
  {
    id: 'I11',
    says: 'Slots are held by exactly the jobs that run and have fresh rows.',
    laws: [
      'a running job with fresh rows holds a slot', 'only running jobs with fresh rows hold a slot',
    ],
  },
  {
    id: 'I12',
    says: 'A job that has ended has one event, and its deliveries come to their end.',
    laws: ['one event a job', 'every delivery comes to its end'],
  },
]

/** The invariant that a law belongs to. */
export function invariantOf (law: string): string {
  return INVARIANTS.find(({ laws }) => laws.includes(law))?.id ?? '-'
}

/** All of them, a line each. */
export function invariantsText (): string {
  return ['', 'What is checked:', ...INVARIANTS.map(({ id, says }) => `  ${id.padEnd(4)} ${says}`)]
    .join('\n')
}
