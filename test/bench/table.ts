import type { Figures, Spread } from './measure.ts'

const fixed = (value: number, digits = 0) => value.toFixed(digits)
const spread = ({ p50Ms, p95Ms }: Spread) => `p50 ${fixed(p50Ms)} ms, p95 ${fixed(p95Ms)} ms`

/** The figures as people read them; CPU seconds are those of a fresh big job alone. */
export function table (figures: Figures): string {
  const lines: readonly (readonly [string, string])[] = [
    ['rows of the big job', fixed(figures.rows)],
    ['bare loop, warm median', `${fixed(figures.bareLoopMs)} ms`],
    ['the first job of all', `${fixed(figures.firstWallMs)} ms to completed`],
    ['POST to 202', `${fixed(figures.preflightMs)} ms, ${fixed(figures.ratioPreflight, 2)} of it`],
    ['POST to completed', `${fixed(figures.wallMs)} ms, ${fixed(figures.rowsPerSecond)} rows/s`],
    ['ratio_bare', fixed(figures.ratioBare, 2)],
    ['with the CSV downloaded', fixed(figures.ratioWithCsv, 2)],
    ['the same again, all cached', fixed(figures.ratioCached, 2)],
    ['100 rows, all cached', spread(figures.cached100)],
    ['100 rows, all fresh', spread(figures.fresh100)],
    ['100 rows beside a big job', spread(figures.besideBig)],
    ...figures.processes.map(({ name, cpuSeconds, peakMb }) =>
      [name, `${fixed(cpuSeconds, 2)} s CPU, peak ${fixed(peakMb)} MB`] as const),
  ]
  return lines.map(([name, value]) => `${name.padEnd(28)} ${value}`).join('\n')
}
