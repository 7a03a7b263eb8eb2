import { Command } from 'commander'
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { measure } from './measure.ts'
import { withServices } from './services.ts'
import { table } from './table.ts'

const { json, rows, scale, profile } = new Command('bench')
  .description('Runs a phone-validation job on the embedded stack and compares it with a bare ' +
    'single-threaded loop over the same rows in the same run.')
  .option('--json <file>', 'write the figures as JSON too')
  .option('--rows <number>', 'rows of the big job', '100000')
  .option('--scale <number>', 'instances of normalize and of verify', '1')
  .option('--profile <folder>', 'write a CPU profile of every service there')
  .parse()
  .opts<{ json?: string, rows: string, scale: string, profile?: string }>()

/** A profile is written when a service stops; it opens in the performance tools of a browser. */
const profiling: Record<string, string> = profile === undefined
  ? {}
  : { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${resolve(profile)}` }

/** The bare loop in a process of its own, as it must not warm up what the job then uses. */
function bareLoopMs (): number {
  const program = join(import.meta.dirname, 'bare.ts')
  const text = execFileSync(process.execPath, [program, rows], { encoding: 'utf8' })
  const { warmMs } = JSON.parse(text) as { warmMs: readonly number[] }
  return warmMs[Math.floor(warmMs.length / 2)] ?? NaN
}

const dataDir = mkdtempSync(join(tmpdir(), 'verification-jobs-bench-'))
try {
  const setup = { dataDir, instances: Number(scale), overrides: profiling }
  const figures = await withServices(setup, running =>
    measure({ ...running, rows: Number(rows), bareLoopMs, show: console.log }))
  console.log(`\n${table(figures)}`)
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(figures, null, 2)}\n`)
} finally {
  rmSync(dataDir, { recursive: true, force: true })
}
process.exit()
