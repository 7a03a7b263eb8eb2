import type { LimitCheck, Unit } from './limits.ts'
import { percentilesOf, type Percentiles } from './jobs.ts'
import type { Scenario } from './options.ts'
import type { Report } from './run.ts'
import type { ListsTimes } from './scenarios/lists.ts'
import type { HopFigures } from './scenarios/peers.ts'
import type { RecoveryStep } from './scenarios/recovery.ts'
import type { PostFigures } from './scenarios/scaling.ts'
import {
  MAX_P95_MS, STEADY_JOBS_PER_SECOND, type SmallJobsFigures,
} from './scenarios/small.ts'

/** Formats all figures. CPU seconds are those of one fresh large job. */
export function reportTable (report: Report): string {
  const core: readonly Line[] = [
    ['rows of a large job', fixed(report.rows)],
    ['bare loop, warm median', `${fixed(report.bareLoopMs)} ms`],
    ['first job after the start', `${fixed(report.firstWallMs)} ms to completed`],
    ['POST to 202', `${fixed(report.preflightMs)} ms, ratio ${fixed(report.ratioPreflight, 2)}`],
    ['POST to completed', `${fixed(report.wallMs)} ms, ${fixed(report.rowsPerSecond)} rows/s`],
    ['ratio_bare', fixed(report.ratioBare, 2)],
    ['with the CSV downloaded', fixed(report.ratioWithCsv, 2)],
    ['the same job, all cached', fixed(report.ratioCached, 2)],
    ['results download', `${fixed(report.resultsMbPerSecond, 1)} MB/s`],
    ['100 rows, all cached', formatPercentiles(report.cached100)],
    ['100 rows, all fresh', formatPercentiles(report.fresh100)],
    ['100 rows during a large job', formatPercentiles(report.duringLargeJob)],
    ['idle CPU of all services', `${fixed(report.idleCpuPercent, 2)} % of a core`],
    ...report.processes.map(({ name, cpuSeconds, peakMb }): Line =>
      [name, `${fixed(cpuSeconds, 2)} s CPU, peak ${fixed(peakMb)} MB`]),
  ]
  return formatLines([...core, ...scenarioLines(report)])
}

const HEADERS = ['figure', 'value', 'to R', 'limit', 'target', ''] as const
const WIDTHS = [46, 20, 13, 11, 11, 0] as const
/** The size of a large job that the limits apply to. */
const LIMITS_ROWS = 100_000

/**
 * Formats value, limit, target and status of every figure; missed limits are marked. Times and
 * rates are also set in relation to R, the bare loop over the rows that limits apply to.
 */
export function limitTable (
  checks: readonly LimitCheck[], { rows, bareLoopMs }: Pick<Report, 'rows' | 'bareLoopMs'>
): string {
  const row = (cells: readonly string[]) =>
    cells.map((cell, index) => cell.padEnd(WIDTHS[index] ?? 0)).join(' ').trimEnd()
  const missed = checks.filter(({ status }) => status === 'limit missed').length
  const isComparable = rows === LIMITS_ROWS
  return [
    row(HEADERS),
    ...checks.map(check => row(cellsOf(check, isComparable ? bareLoopMs : undefined))),
    missed === 0 ? 'No limit was missed.' : `!! ${missed} of ${checks.length} limits missed`,
    ...isComparable
      ? []
      : [`Limits apply to 100,000 rows; this was a quick run with ${rows}.`],
  ].join('\n')
}

function cellsOf (check: LimitCheck, bareLoopMs: number | undefined): readonly string[] {
  const { figure, unit, bound, value, limit, target } = check
  const goalText = (goal: number) =>
    `${bound === 'upper' ? '<=' : '>='} ${goal.toLocaleString('en')}`
  return [
    figure,
    value === undefined ? '-' : formatValue(value, unit),
    value === undefined || bareLoopMs === undefined ? '' : formatRelative(value, unit, bareLoopMs),
    goalText(limit),
    target === undefined ? '-' : goalText(target),
    statusText(check),
  ]
}

function statusText ({ status, missedByPercent, scenario }: LimitCheck): string {
  if (status === 'limit missed') return `!! missed by ${fixed(missedByPercent ?? NaN, 1)} %`
  return status === 'not measured' ? `not measured (--${scenario})` : status
}

/** How the figures of each scenario are written, in this order. */
const WRITERS: {
  readonly [S in Scenario]: (figures: NonNullable<Report[S]>) => readonly Line[]
} = {
  growth: ({ steps, ratio }) => [
    ...steps.map(({ rows, wallMs }): Line => [`growth: ${rows} rows`, `${fixed(wallMs)} ms`]),
    ['growth: all / a tenth', fixed(ratio, 2)],
  ],
  crowd: (crowd) => [
    [`crowd: ${crowd.jobs} jobs at once`, `${fixed(crowd.rowsPerSecond)} rows/s`],
    ['crowd: 100 rows, idle', formatPercentiles(crowd.idle)],
    ['crowd: 100 rows, under load',
      `${formatPercentiles(crowd.underLoad)}, ${crowd.samples} samples`],
    ...crowd.processes.map(({ name, peakMb }): Line =>
      [`crowd: ${name}`, `peak ${fixed(peakMb)} MB`]),
  ],
  scaling: ({ steps, steady, rebalancing }) => [
    ...steps.map(({ normalize, verify, rowsPerSecond }): Line =>
      [`scaling: normalize ${normalize}, verify ${verify}`, `${fixed(rowsPerSecond)} rows/s`]),
    ['scaling: POST, stable groups', postText(steady)],
    ['scaling: POST, rebalancing', postText(rebalancing)],
  ],
  webhooks: ({ deliveries, deliveriesPerSecond, jobsPerSecond }) => [
    [`webhooks: ${deliveries}`, `${fixed(deliveriesPerSecond)} deliveries/s`],
    ['webhooks: one-row jobs', `${fixed(jobsPerSecond)} jobs/s`],
  ],
  email: ({ rows, domains, wallMs, rowsPerSecond }) => [[`e-mail: ${rows} rows`,
    `${fixed(wallMs)} ms, ${fixed(rowsPerSecond)} rows/s, ${domains} domains`]],
  verifications: ({ cached, fresh, cached100, backToBack }) => [
    ['verification: one cached', formatPercentiles(cached)],
    ['verification: one fresh', formatPercentiles(fresh)],
    ['verification: 100 cached', formatPercentiles(cached100)],
    ['the same of one, no pauses', formatPercentiles(backToBack)],
  ],
  provisional: ({ rows, aloneMs, readMs, ratio, lastRowMs }) => [
    [`provisional: ${rows} rows`, `${fixed(aloneMs)} ms without a reader, ${fixed(readMs)} ms ` +
      `with one, which has the last row after ${fixed(lastRowMs)} ms`],
    ['provisional: with / without', fixed(ratio, 3)],
  ],
  fairness: ({ baselineMs, underLoadMs, largeJobsMs, ratio, unavailable, jainIndex }) => [
    ['fairness: a job alone', `${fixed(baselineMs)} ms`],
    ['fairness: beside ten large', `${formatPercentiles(percentilesOf(underLoadMs))} of ` +
      `${underLoadMs.length} samples, ${unavailable} times 5xx`],
    ['fairness: beside / alone', fixed(ratio, 2)],
    ['fairness: the ten large jobs', `${fixed(largeJobsMs)} ms`],
    ['fairness: Jain\'s index of ten', fixed(jainIndex, 3)],
  ],
  recovery: ({ afterKill, afterDataLoss, openJobs, idlePercent, idleTenants, bytesPerJob }) => {
    const text = ({ firstAcceptedMs, allUnlockedMs, peakMb }: RecoveryStep) =>
      `first 202 ${fixed(firstAcceptedMs)} ms, all ${fixed(allUnlockedMs)} ms, ` +
      `ledger ${fixed(peakMb)} MB`
    return [
      ...afterKill.map((step): Line => [`recovery: ${step.entries} entries, killed`, text(step)]),
      [`recovery: ${afterDataLoss.entries} entries, data lost, ${openJobs} jobs open`,
        text(afterDataLoss)],
      [`recovery: ${idleTenants} idle tenants`, `ledger ${fixed(idlePercent, 2)} % of a core`],
      ['recovery: a job after an hour', `${fixed(bytesPerJob)} bytes in the state Redis`],
    ]
  },
  small: ({ residentMb, proportionalMb, oneFresh, oneCached, steady, highest }) => [
    ['small: memory after start',
      `${fixed(residentMb)} MB resident, ${fixed(proportionalMb)} MB with shared pages once`],
    ['small: one fresh contact', formatPercentiles(oneFresh)],
    ['small: one cached contact', formatPercentiles(oneCached)],
    ...smallJobsLines(`small: ${STEADY_JOBS_PER_SECOND} jobs/s`, steady),
    ...highest === undefined
      ? []
      : smallJobsLines(`small: p95 < ${MAX_P95_MS} ms, ${highest.clients} clients`, highest),
  ],
  partners: ({ steps }) => steps.flatMap((step): readonly Line[] => [
    [`partners: ${step.partners}`,
      `${step.topics} topics, ${step.partitions} partitions, ${step.connections} connections`],
    ['  feed', `ready after ${fixed(step.readyMs)} ms, ${fixed(step.feedMb)} MB`],
    ['  idle CPU', `feed ${fixed(step.feedPercent, 2)} %, Kafka ${fixed(step.kafkaPercent, 2)} ` +
      `%, state Redis ${fixed(step.redisPercent, 2)} % of a core`],
    ['  partner create', `${fixed(step.createMs)} ms, command ${fixed(step.commandMs)} ms`],
  ]),
  soak: ({ minutes, jobs, rowsVerified, growth }) => {
    const start = minutes < 4 ? 'a quarter of it' : 'the first minute'
    return [
      [`soak: ${minutes} minutes`, `${jobs} jobs, ${rowsVerified} rows`],
      ...growth.map(({ name, firstMb, lastMb, ratio }): Line => [`soak: ${name}`,
        `${fixed(firstMb)} MB after ${start}, ${fixed(lastMb)} MB at the end, ` +
        `ratio ${fixed(ratio, 2)}`]),
    ]
  },
  peers: ({ bareLoopMs, kafkajs, platformatic, sealed }) => {
    const text = ({ wallMs, ratio }: HopFigures) => `${fixed(wallMs)} ms, ratio ${fixed(ratio, 2)}`
    return [
      ['peers: bare loop', `${fixed(bareLoopMs)} ms`],
      ['peers: plain kafkajs', text(kafkajs)],
      ['peers: plain platformatic', text(platformatic)],
      ['peers: sealed normalize', text(sealed)],
    ]
  },
  state: ({ jobs, jobsPerSecond, cpuMsPerJob, corePercent, clientPercent }) => [
    ['state: one-row jobs, one state Redis', `${fixed(jobsPerSecond)} jobs/s, ${jobs} jobs`],
    ['  CPU', `${fixed(cpuMsPerJob, 2)} ms per job, ${fixed(corePercent)} % of a core, ` +
      `the client ${fixed(clientPercent)} %`],
  ],
  mailboxes: ({ lists, peer }) => {
    const peerLines: readonly Line[] = peer === undefined
      ? []
      : [
          [`mailboxes: ${peer.name}`, `${peer.rows} rows in ${fixed(peer.seconds)} s, ` +
            `${fixed(peer.sessionsPer1000)} sessions per 1,000 addresses, ` +
            `${peer.refusals} refusals`],
          [`mailboxes: ${peer.name}`, `${fixed(peer.rightPercent, 2)} % right, ` +
            `${peer.falseInvalid} false invalid, ${peer.falseValid} false valid, ` +
            `${peer.unknown} unknown`],
        ]
    const ours = lists.flatMap(list => {
      const what = `mailboxes: verify x ${list.processes}`
      return [
        [what, `${list.rows} rows in ${fixed(list.seconds)} s, half of them in ` +
          `${fixed(list.halfSeconds)} s, ` +
          `${fixed(list.seconds / list.lowerBoundSeconds, 2)} of what the hosts' limits allow`],
        [what, `${fixed(list.rightPercent, 2)} % right, ${list.falseInvalid} false invalid, ` +
          `${list.falseValid} false valid, ${list.unknown} unknown`],
        [what, `${fixed(list.cpuSecondsPer1000, 2)} s of CPU per 1,000 addresses`],
        ...list.owners.map((owner): Line => [`${what}, ${owner.owner}`,
          `${fixed(owner.mostAMinute)} of ${fixed(owner.policyAMinute)} recipients a minute, ` +
          `${owner.mostSessions} of ${owner.policySessions} sessions, ` +
          `${fixed(owner.sessionsPer1000)} sessions per 1,000 addresses, ` +
          `${owner.refusals} refusals`]),
        ...list.servers.map((server): Line => [`${what}, ${server.server}`,
          `${fixed(server.rightPercent, 2)} % right of ${server.rows} rows, ` +
          `${server.falseInvalid} false invalid, ${server.falseValid} false valid, ` +
          `${server.unknown} unknown, ${fixed(server.sessionsPer1000)} sessions per 1,000`]),
      ] as const satisfies readonly Line[]
    })
    return [...ours, ...peerLines]
  },
  lists: ({ entries, uploadMs, bytesPerEntry, without, with: after, ratio }) => {
    const times = ({ preflightMs, wallMs }: ListsTimes) =>
      `${fixed(preflightMs)} ms to 202, ${fixed(wallMs)} ms to completed`
    return [
      [`lists: ${entries} entries`,
        `${fixed(bytesPerEntry)} bytes each in Redis, uploaded in ${fixed(uploadMs / 1_000)} s`],
      ['lists: large job without', times(without)],
      ['lists: large job with them', `${times(after)}, ratio ${fixed(ratio, 2)}`],
    ]
  },
  workbooks: ({ rows, ratioIn, ratioOut, ...files }) => [
    ...(['csv', 'xlsx'] as const).map((kind): Line => {
      const { megabytes, acceptMs, downloadMs, peakMb } = files[kind]
      return [`workbooks: ${rows} rows as ${kind}`, `${fixed(megabytes, 1)} MB in ` +
        `${fixed(acceptMs)} ms, out in ${fixed(downloadMs)} ms, ingest peak ${fixed(peakMb)} MB`]
    }),
    ['workbooks: CPU of xlsx / csv', `in ${fixed(ratioIn, 2)}, out ${fixed(ratioOut, 2)}`],
  ],
}

/** Formats the figures of the scenarios that ran. */
const scenarioLines = (report: Report): readonly Line[] =>
  Object.entries(WRITERS).flatMap(([scenario, write]) => {
    const figures = report[scenario as Scenario]
    return figures === undefined ? [] : write(figures as never)
  })

function postText ({ posts, p50Ms, p99Ms, unavailable, otherRefusals }: PostFigures): string {
  return `p50 ${fixed(p50Ms)} ms, p99 ${fixed(p99Ms)} ms of ${posts} samples; ` +
    `${unavailable} times 503, ${otherRefusals} other refusals`
}

function smallJobsLines (name: string, figures: SmallJobsFigures): readonly Line[] {
  const { jobs, jobsPerSecond, post, refused, cpuMsPerJob, processes } = figures
  return [
    [name, `${fixed(jobsPerSecond, 1)} jobs/s, POST ${formatPercentiles(post)}, ` +
      `${jobs} jobs, ${refused} refused`],
    ['  CPU per job', `${fixed(cpuMsPerJob, 2)} ms`],
    ...processes.map((process): Line =>
      [`    ${process.name}`, `${fixed(process.cpuMsPerJob, 2)} ms`]),
  ]
}

/** A figure and its formatted value. */
type Line = readonly [figure: string, value: string]

const fixed = (value: number, digits = 0) => value.toFixed(digits)

const formatPercentiles = ({ p50Ms, p95Ms }: Percentiles) =>
  `p50 ${fixed(p50Ms)} ms, p95 ${fixed(p95Ms)} ms`

const DIGITS: Readonly<Record<Unit, number>> = {
  ratio: 2, ms: 0, 'CPU ms': 2, MB: 0, bytes: 0, '% of a core': 2, 'rows/s': 0, 'jobs/s': 0,
}

/** Formats a value with the precision of its unit. */
export function formatNumber (value: number, unit: Unit): string {
  const digits = DIGITS[unit]
  return value.toLocaleString('en', {
    minimumFractionDigits: digits, maximumFractionDigits: digits,
  })
}

/** Formats a value with its unit; a ratio has none. */
export function formatValue (value: number, unit: Unit): string {
  const text = formatNumber(value, unit)
  return unit === 'ratio' ? text : `${text} ${unit}`
}

/**
 * Formats a time as a multiple of the bare loop, and a rate as what happens while it runs once, so
 * that machines compare; empty for other units.
 */
function formatRelative (value: number, unit: Unit, bareLoopMs: number): string {
  if (unit === 'ms' || unit === 'CPU ms') return `${fixed(value / bareLoopMs, 4)} R`
  return unit === 'rows/s' || unit === 'jobs/s' ? `${fixed(value * bareLoopMs / 1_000)} in R` : ''
}

/** Formats figures and values as two columns. */
function formatLines (lines: readonly Line[]): string {
  return lines.map(([figure, value]) => `${figure.padEnd(28)} ${value}`).join('\n')
}
