import { Command, InvalidArgumentError } from 'commander'

/** What is measured only when asked for. */
export const PARTS = [
  'growth', 'crowd', 'scaling', 'webhooks', 'email', 'fairness', 'recovery',
  'soak', 'peers',
] as const

export type Part = typeof PARTS[number]

export type BenchOptions = {
  readonly rows: number
  readonly scale: number
  readonly parts: ReadonlySet<Part>
  readonly soakMinutes: number
  /** Of the longest journal that is recovered from. */
  readonly recoveryEntries: number
  readonly save: boolean
  readonly json?: string
  readonly profile?: string
}

type Raw = Partial<Record<Exclude<Part, 'soak' | 'recovery'>, true>> & {
  readonly rows: number
  readonly scale: number
  readonly soak?: number
  readonly recovery?: number | true
  readonly all?: true
  readonly save?: true
  readonly json?: string
  readonly profile?: string
}

const SOAK_MINUTES = 10
const RECOVERY_ENTRIES = 1_000_000

/** What was asked for; `--help` and mistakes are answered here and end the process. */
export function readOptions (argv: readonly string[]): BenchOptions {
  const raw = program().parse([...argv], { from: 'user' }).opts<Raw>()
  const { rows, scale, json, profile } = raw
  return {
    rows,
    scale,
    parts: new Set(PARTS.filter(part => raw.all === true || raw[part] !== undefined)),
    soakMinutes: raw.soak ?? SOAK_MINUTES,
    recoveryEntries: typeof raw.recovery === 'number' ? raw.recovery : RECOVERY_ENTRIES,
    save: raw.save === true,
    ...json !== undefined && { json },
    ...profile !== undefined && { profile },
  }
}

function program (): Command {
  return new Command('bench')
    .description('Runs phone-validation jobs on the embedded stack and compares them with a bare ' +
      'single-threaded loop over the same rows in the same run. Further parts take longer. ' +
      'Limits are for 100,000 rows on a machine that does nothing else; missed ones are marked ' +
      'and do not fail. Exits with 1 when something could not be measured.')
    .option('--json <file>', 'write the figures as JSON too')
    .option('--rows <number>', 'rows of a big job; fewer for a quick try', whole, 100_000)
    .option('--scale <number>', 'instances of normalize and of verify', whole, 1)
    .option('--profile <folder>', 'write a CPU profile of every service there')
    .option('--growth', 'fresh jobs of 1, 3, 10, 30 and 100 % of the rows (about 1 min)')
    .option('--crowd', 'ten big jobs at once, and a small one of another organization each ' +
      'second beside them (2 min)')
    .option('--scaling', 'normalize and verify with one and two instances; POST times and 503s ' +
      'while groups go out and in (3 min)')
    .option('--webhooks', 'deliveries a second to a receiver on this machine (1 min)')
    .option('--email', 'half as many e-mail rows through email-domain, MX known (1 min)')
    .option('--fairness', 'a job beside ten big ones of another organization, and ten ' +
      'organizations with equal loads (2 min)')
    .option('--recovery [entries]', 'the state Redis killed with journals of 10,000 entries and ' +
      'up to so many (1,000,000), and all its files deleted (5 min)', whole)
    .option('--soak <minutes>', 'memory of each service under a steady load', positive)
    .option('--peers', 'one plain Kafka hop by kafkajs and by @platformatic/kafka, and the ' +
      'sealed normalize hop alone (1 min)')
    .option('--all', `all of these; the soak takes ${SOAK_MINUTES} min unless given`)
    .option('--save', 'write JSON and an SVG plot to test/bench/results/, named by day and commit')
}

function whole (text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new InvalidArgumentError('It must be a whole number from 1.')
}

function positive (text: string): number {
  const value = Number(text)
  if (Number.isFinite(value) && value > 0) return value
  throw new InvalidArgumentError('It must be a number above 0.')
}
