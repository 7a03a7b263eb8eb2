import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startExtras } from './extras.ts'
import { judgeAll } from './judge.ts'
import { measureReport } from './run.ts'
import { readOptions } from './options.ts'
import { withStack } from './services.ts'
import { judgementTable, table } from './table.ts'

const options = readOptions(process.argv.slice(2))
const { json, rows, save } = options

/** The bare loop in a process of its own, as it must not warm up what the job then uses. */
function bareLoopMs (): number {
  const program = join(import.meta.dirname, 'bare.ts')
  const text = execFileSync(process.execPath, [program, String(rows)], { encoding: 'utf8' })
  const { warmMs } = JSON.parse(text) as { warmMs: readonly number[] }
  return warmMs[Math.floor(warmMs.length / 2)] ?? NaN
}

const show = (line: string) => console.log(line)
const dataDir = mkdtempSync(join(tmpdir(), 'verification-jobs-bench-'))
const { overrides, stop } = await startExtras(options)
try {
  const report = await withStack(dataDir, stack =>
    measureReport(stack, { ...options, overrides, bareLoopMs, show }))
  const judgements = judgeAll(report)
  show(`\n${table(report)}\n\n${judgementTable(judgements, rows)}`)
  const judged = { ...report, judgements }
  if (json !== undefined) writeFileSync(json, `${JSON.stringify(judged, null, 2)}\n`)
  if (save) {
    // The library that plots is loaded only here, as it takes memory and time to start.
    const { saveResults } = await import('./save.ts')
    for (const file of saveResults(judged)) show(`wrote ${file}`)
  }
} finally {
  await stop()
  rmSync(dataDir, { recursive: true, force: true })
}
process.exit()
