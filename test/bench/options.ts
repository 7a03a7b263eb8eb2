import { Command, InvalidArgumentError } from 'commander'
import { processesOption, type Processes } from '../../deploy/local/launcher/layout.ts'

/** The scenarios that run only on request. */
const SCENARIOS = [
  'growth', 'crowd', 'webhooks', 'email', 'verifications', 'provisional', 'fairness',
  'recovery', 'small', 'partners', 'soak', 'peers', 'mailboxes', 'lists', 'workbooks',
] as const

export type Scenario = typeof SCENARIOS[number]

export type BenchOptions = {
  readonly rows: number
  readonly scale: number
  /** Into how many processes the stages are divided. */
  readonly processes: Processes
  readonly scenarios: ReadonlySet<Scenario>
  readonly soakMinutes: number
  /** Length of the longest journal to recover from. */
  readonly recoveryEntries: number
  /** How long the highest rate of one-row jobs is sustained. */
  readonly smallSeconds: number
  /** Numbers of partners, ascending. */
  readonly partnerCounts: readonly number[]
  /** Jobs through the whole service in these journals, at most. */
  readonly recoveryJobs: number
  readonly save: boolean
  readonly json?: string
  readonly profile?: string
}

type Flag = Exclude<Scenario, 'soak' | 'recovery' | 'small' | 'partners'>

type RawOptions = Partial<Record<Flag, true>> & {
  readonly rows: number
  readonly scale: number
  readonly processes: string
  readonly soak?: number
  readonly recovery?: number | true
  readonly small?: number | true
  readonly partners?: readonly number[] | true
  readonly recoveryJobs: number
  readonly all?: true
  readonly save?: true
  readonly json?: string
  readonly profile?: string
}

const SOAK_MINUTES = 10
const RECOVERY_ENTRIES = 1_000_000
const SMALL_SECONDS = 60
const RECOVERY_JOBS = 5_000
const PARTNER_COUNTS = [10, 200, 1_000]

/** Parses the command line. `--help` and invalid options print a message and end the process. */
export function readOptions (argv: readonly string[]): BenchOptions {
  const raw = createProgram().parse([...argv], { from: 'user' }).opts<RawOptions>()
  const { rows, scale, processes, recoveryJobs, json, profile } = raw
  return {
    rows,
    scale,
    processes: Number(processes) as Processes,
    scenarios: new Set(SCENARIOS.filter(name => raw.all === true || raw[name] !== undefined)),
    soakMinutes: raw.soak ?? SOAK_MINUTES,
    recoveryEntries: typeof raw.recovery === 'number' ? raw.recovery : RECOVERY_ENTRIES,
    smallSeconds: typeof raw.small === 'number' ? raw.small : SMALL_SECONDS,
    partnerCounts: Array.isArray(raw.partners) ? raw.partners : PARTNER_COUNTS,
    recoveryJobs,
    save: raw.save === true,
    ...json !== undefined && { json },
    ...profile !== undefined && { profile },
  }
}

function createProgram (): Command {
  return new Command('bench')
    .description('Runs phone-validation jobs on the embedded stack and compares them with a bare ' +
      'single-threaded loop over the same rows in the same run. Further scenarios take longer. ' +
      'Limits apply to 100,000 rows on an otherwise idle machine; a missed limit is marked and ' +
      'does not fail the run. Exits with 1 when a scenario cannot be measured.')
    .option('--json <file>', 'also write the figures as JSON to this file')
    .option('--rows <number>', 'rows of a large job; fewer for a quick run', positiveInteger,
      100_000)
    .option('--scale <number>', 'instances of normalize and of verify', positiveInteger, 1)
    .addOption(processesOption().default('2'))
    .option('--profile <folder>', 'write a CPU profile of every service to this folder')
    .option('--growth', 'fresh jobs of 1, 3, 10, 30 and 100 % of the rows (about 1 min)')
    .option('--crowd', 'ten large jobs at once, and each second a small job of another ' +
      'organization (2 min)')
    .option('--webhooks', 'deliveries per second to a receiver on this machine (1 min)')
    .option('--email', 'half as many e-mail rows through email-domain, MX known (1 min)')
    .option('--lists', 'jobs of an organization with as many entries of contact lists as there ' +
      'may be, and without (3 min)')
    .option('--mailboxes', 'a list of mailboxes of half the rows at mail servers on this machine ' +
      'that limit what they take, with one and with ten processes of verify (20 min)')
    .option('--verifications', 'POST /verifications of one contact, cached and fresh (1 min)')
    .option('--provisional', 'large jobs whose rows are read while they run, in turns with large ' +
      'jobs without a reader (1 min)')
    .option('--fairness', 'a job beside ten large ones of another organization, and ten ' +
      'organizations with equal load (2 min)')
    .option('--recovery [entries]', 'time to recover after a kill of the state Redis, with ' +
      'journals of 10,000 up to this many entries (1,000,000), and after the loss of all its ' +
      'files (5 min)', positiveInteger)
    .option('--recovery-jobs <number>', 'a tenth of each of these journals is made by one-row ' +
      'jobs through the whole service, up to this many jobs', positiveInteger, RECOVERY_JOBS)
    .option('--small [seconds]', 'one-row jobs: the highest rate that is sustained for this long ' +
      '(60 s), CPU of each process per job, idle latency and memory after the start (5 min)',
    positiveInteger)
    .option('--partners [counts]', 'what registered partners cost while they send nothing ' +
      '(10,200,1000; 8 min)', positiveIntegers)
    .option('--soak <minutes>', 'memory of each service under a steady load', positiveNumber)
    .option('--peers', 'one plain Kafka hop with kafkajs and with @platformatic/kafka, and the ' +
      'sealed normalize hop alone (1 min)')
    .option('--workbooks', 'the same rows as CSV and as a workbook, in and out (1 min)')
    .option('--all', `all of these; the soak takes ${SOAK_MINUTES} min unless given`)
    .option('--save', 'write JSON and an SVG plot to test/bench/results/, over those before')
}

function positiveInteger (text: string): number {
  const value = Number(text)
  if (Number.isSafeInteger(value) && value > 0) return value
  throw new InvalidArgumentError('Expected a positive integer.')
}

function positiveIntegers (text: string): readonly number[] {
  return text.split(',').map(positiveInteger)
}

function positiveNumber (text: string): number {
  const value = Number(text)
  if (Number.isFinite(value) && value > 0) return value
  throw new InvalidArgumentError('Expected a positive number.')
}
