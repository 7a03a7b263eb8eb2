import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Say } from '../../deploy/local/parts.ts'
import type { Plan, PlanLine } from './repeat-runner.ts'
import type { TestResult } from './report.ts'

/** A process that says nothing for so long hangs, in a run with a mutant or without one. */
const HANGS_AFTER_MS = { withMutant: 20_000, without: 180_000 }
const POLL_MS = 500

/** The results of a file of tests, and the mutants whose code runs while modules are loaded. */
type FileResult = { readonly tests: readonly TestResult[], readonly fixed: readonly string[] }

/**
 * Runs each test of a file with every mutant that it reaches, in a folder with instrumented
 * sources. A mutant with which the process hangs or ends is found, and another process goes on.
 * So it does with tests that fail behind others: mutants may leave work behind that disturbs them.
 */
export async function runTestFile (
  folder: string, file: string,
  { maxMs, only, isUntilFound }: Pick<Plan, 'maxMs' | 'only' | 'isUntilFound'>, say: Say
): Promise<FileResult> {
  const log = join(folder, `${file.replaceAll('/', '_')}.log`)
  writeFileSync(log, '')
  const ended: Extract<PlanLine, { readonly ends: string }>[] = []
  let open: string | undefined
  let tests: readonly string[] | undefined
  do {
    const lines = linesOf(log)
    const judged = [...endsOf(lines), ...ended]
    const done = judged.map(({ test, ends }) => `${test} ${ends}`)
    const planFile = `${log}.json`
    const foundIds = new Set(judged.filter(({ isFound }) => isFound).map(({ ends }) => ends))
    const left = only.filter(id => !isUntilFound || !foundIds.has(id))
    writeFileSync(planFile, JSON.stringify({
      log, done, maxMs, isUntilFound, only: left, ...tests && { tests },
    } satisfies Plan))
    await runVitest(folder, { MUTATE_FILE: file, MUTATE_PLAN: planFile }, log)
    const said = linesOf(log).slice(lines.length)
    const last = said.at(-1)
    open = last !== undefined && 'begins' in last ? last.begins : undefined
    if (last !== undefined && open !== undefined) {
      ended.push({ test: last.test, ends: open, isFound: true })
    } else {
      tests = said.filter(line => 'name' in line).slice(1)
        .filter(({ isBroken }) => isBroken).map(({ test }) => test)
    }
  } while (open !== undefined || tests?.length !== 0)
  const lines = [...linesOf(log), ...ended]
  const result = resultOf(file, lines)
  const disturbed = result.tests.filter(({ isDisturbed }) => isDisturbed).length
  const found = new Set(result.tests.flatMap(({ kills }) => kills)).size
  say(`${file}: ${result.tests.length} tests find ${found} mutants` +
    (disturbed === 0 ? '' : `; ${disturbed} fail without one`))
  return result
}

/** Ends when the process does; one that hangs is killed, with its workers. */
async function runVitest (
  folder: string, env: Readonly<Record<string, string>>, log: string
): Promise<void> {
  const vitest = spawn(process.execPath, [
    join(folder, 'node_modules/vitest/vitest.mjs'), 'run', '--config',
    'test/mutate/vitest.config.ts', '--silent', '--reporter', 'dot',
  ], { cwd: folder, stdio: 'ignore', detached: true, env: { ...process.env, ...env } })
  const stop = () => process.kill(-(vitest.pid ?? 0), 'SIGKILL')
  process.once('exit', stop)
  let size = -1
  let changedMs = performance.now()
  const watch = setInterval(() => {
    const now = existsSync(log) ? statSync(log).size : 0
    if (now !== size) changedMs = performance.now()
    size = now
    const isInMutant = size > 0 && 'begins' in (linesOf(log).at(-1) ?? {})
    const limitMs = HANGS_AFTER_MS[isInMutant ? 'withMutant' : 'without']
    if (performance.now() - changedMs > limitMs) stop()
  }, POLL_MS)
  await once(vitest, 'exit')
  clearInterval(watch)
  process.off('exit', stop)
}

/** The last line is incomplete when the process was killed. */
function linesOf (log: string): readonly PlanLine[] {
  const text = readFileSync(log, 'utf8')
  return text.slice(0, text.lastIndexOf('\n') + 1).split('\n').filter(line => line !== '')
    .map(line => JSON.parse(line) as PlanLine)
}

const endsOf = (lines: readonly PlanLine[]) => lines.filter(line => 'ends' in line)

function resultOf (file: string, lines: readonly PlanLine[]): FileResult {
  const kills = new Map<string, string[]>()
  for (const { test, ends, isFound } of endsOf(lines)) {
    if (isFound) kills.set(test, [...kills.get(test) ?? [], ends])
  }
  const disturbed = new Set(lines.flatMap(line =>
    'isDisturbed' in line && line.isDisturbed ? [line.test] : []))
  // A second process describes its tests again.
  const tests = new Map(lines.flatMap(line => 'name' in line ? [[line.test, line] as const] : []))
  return {
    fixed: [...tests.values()].at(-1)?.fixed ?? [],
    tests: [...tests.values()].map(({ test, name, ms, reached, isSlow, isBroken }) => ({
      file,
      name,
      ms,
      reached,
      kills: kills.get(test) ?? [],
      isSlow,
      isDisturbed: isBroken || disturbed.has(test),
    })),
  }
}
