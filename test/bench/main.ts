import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { startDnsServer } from '../support/mail/dns-server.ts'
import { checkLimits } from './limits.ts'
import { readOptions, type BenchOptions } from './options.ts'
import { runBenchmark } from './run.ts'
import { mailZones } from './scenarios/email.ts'
import { LOCAL_RECEIVERS } from './scenarios/webhooks.ts'
import { withStack } from './services.ts'
import { limitTable, reportTable } from './table.ts'

const options = readOptions(process.argv.slice(2))
const { json, rows, save } = options
const log = (line: string) => console.log(line)
const dataDir = mkdtempSync(join(tmpdir(), 'verification-jobs-bench-'))
const { overrides, stop } = await prepareEnvironment(options)
try {
  const report = await withStack(dataDir, stack =>
    runBenchmark(stack, { ...options, overrides, bareLoopMs, log }))
  const limitChecks = checkLimits(report)
  log(`\n${reportTable(report)}\n\n${limitTable(limitChecks, report)}`)
  const checked = { ...report, limitChecks }
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(checked, null, 2)}\n`)
  if (save) {
    // Imported on demand: the plotting library takes memory and time to load.
    const { saveResults } = await import('./save.ts')
    for (const file of saveResults(checked)) log(`wrote ${file}`)
  }
} finally {
  await stop()
  rmSync(dataDir, { recursive: true, force: true })
}
process.exit()

/** Runs the bare loop in a separate process, so that it does not warm up code that jobs use. */
function bareLoopMs (): number {
  const program = join(import.meta.dirname, 'bare-loop.ts')
  const text = execFileSync(process.execPath, [program, String(rows)], { encoding: 'utf8' })
  const { warmMs } = JSON.parse(text) as { warmMs: readonly number[] }
  return warmMs[Math.floor(warmMs.length / 2)] ?? NaN
}

/** Starts and configures what only some options need. `overrides` is for every service. */
async function prepareEnvironment (
  { scenarios, profile }: Pick<BenchOptions, 'scenarios' | 'profile'>
) {
  const dns = scenarios.has('email') ? await startDnsServer(mailZones()) : undefined
  const overrides: Readonly<Record<string, string>> = {
    ...profile !== undefined && profiling(profile),
    ...scenarios.has('webhooks') && LOCAL_RECEIVERS,
    ...dns !== undefined && { DNS_SERVERS: dns.address },
  }
  return { overrides, stop: async () => { await dns?.stop() } }
}

/** A service writes its profile when it stops. */
function profiling (folder: string) {
  return { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${resolve(folder)}` }
}
