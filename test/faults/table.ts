import { median } from '../bench/jobs.ts'
import type { Outcome } from './fault.ts'

const HEADERS = ['fault', 'kind', 'injected', 'recovery p50/max', 'jobs', 'rows', '202', '503',
  'lost', 'held', 'seconds', 'result'] as const

/** What was injected, how often, how long recovery took and what held; failures below it. */
export function faultTable (outcomes: readonly Outcome[]): string {
  const lines = [[...HEADERS], ...outcomes.map(cellsOf)]
  const widths = HEADERS.map((_, column) =>
    Math.max(...lines.map(line => line[column]?.length ?? 0)))
  const table = lines.map(line =>
    line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join('  ').trimEnd())
  return [...table, '', ...sumOf(outcomes), ...outcomes.flatMap(failureOf)].join('\n')
}

const seconds = (ms: number) => (ms / 1_000).toFixed(1)

function cellsOf (outcome: Outcome): string[] {
  const { fault, recoveryMs = [], answers, held, breaches, note } = outcome
  const recovery = recoveryMs.length === 0
    ? '-'
    : `${seconds(median(recoveryMs))}/${seconds(Math.max(...recoveryMs))} s`
  const invariants = held.length + new Set(breaches.map(text => text.split(':', 1)[0])).size
  const result = outcome.skipped !== undefined
    ? `skipped: ${outcome.skipped}`
    : breaches.length === 0 ? 'ok' : `${breaches.length} BREACHES`
  return [
    fault.name, fault.kind, String(outcome.injected), recovery, String(outcome.jobs),
    String(outcome.rows), String(answers[202] ?? 0), String(answers[503] ?? 0),
    String(answers[0] ?? 0), `${held.length}/${invariants}`, outcome.seconds.toFixed(0),
    note === undefined ? result : `${result} (${note})`,
  ]
}

function sumOf (outcomes: readonly Outcome[]): readonly string[] {
  const sum = (of: (outcome: Outcome) => number) =>
    outcomes.reduce((total, outcome) => total + of(outcome), 0)
  const wrong = sum(({ answers }) => Object.entries(answers)
    .reduce((total, [status, count]) =>
      total + (Number(status) >= 500 && status !== '503' ? count : 0), 0))
  return [
    `${sum(({ injected }) => injected)} faults injected by ${outcomes.length} scenarios into ` +
    `${sum(({ jobs }) => jobs)} jobs of ${sum(({ rows }) => rows)} rows: ` +
    `${sum(({ breaches }) => breaches.length)} breaches, ${wrong} answers of 500 and above ` +
    'other than 503',
  ]
}

function failureOf ({ fault, seed, full, breaches }: Outcome): readonly string[] {
  if (breaches.length === 0) return []
  const how = `--only ${fault.name} --seed ${seed}${full ? '' : ' --quick'}`
  return [
    '',
    `${fault.name} failed; again: npm run faults -- ${how}`,
    ...breaches.map(text => `  ${text}`),
  ]
}
