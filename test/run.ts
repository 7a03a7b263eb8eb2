import { Command } from 'commander'
import { startVitest } from 'vitest/node'
import { root, runPrograms, type Program } from './runner/programs.ts'
import { Progress } from './runner/progress.ts'
import { prepareStack, prepareTools, type ToolName } from './runner/tools.ts'
import { ownFoldersOfRun } from './support/folder.ts'
import { SUITES, TIERS, type Suite, type Tier } from './suites.ts'

type Options = {
  readonly ci?: boolean
  readonly full?: boolean
  readonly changed?: string | true
  readonly only: readonly string[]
}
type Line = {
  readonly name: string
  readonly passed: number
  readonly failed: number
  readonly skipped: number
  readonly seconds: number
}
/** Beyond so many times what a suite is expected to take, its time is a warning. */
const LONG = 1.5

const names = SUITES.map(({ name }) => name)
const command = new Command('test')
  .usage('[suite...] [options]')
  .description('Runs the suites that must pass. Without a suite: all of npm test, with --ci also ' +
    'those that take long, with --full also those that need foreign tools or longer. Suites: ' +
    `${names.join(', ')}.`)
  .argument('[suite...]')
  .option('--ci', 'also what takes long with the same tools, as .ci/run runs it')
  .option('--full', 'also what needs foreign tools, long runs, every fault: npm run test:full')
  .option('--changed [commit]', 'what was touched since a commit (without one: not committed ' +
    'yet): types, lint, and the test files that import it')
  .option('--only <text>', 'only test files whose path contains this, or another --only',
    (text: string, before: readonly string[]) => [...before, text], [])
  .parse()
const options = command.opts<Options>()
const hasOnly = options.only.length > 0
const isChosen = hasOnly || options.changed !== undefined
const isWhole = command.args.length === 0 && !isChosen
/** What is chosen runs in the form of CI. */
const lastTier: Tier = options.full === true ? 'full' : options.ci || !isWhole ? 'ci' : 'fast'

function chosenSuites (): readonly Suite[] {
  const unknown = command.args.filter(name => !names.includes(name))
  if (unknown.length > 0) {
    console.error(`test: there is no suite ${unknown.join(', ')}; there are ${names.join(', ')}`)
    process.exit(2)
  }
  const named = SUITES.filter(({ name }) => command.args.includes(name))
  const programs = named.filter(({ kind }) => kind === 'program').map(({ name }) => name)
  if (hasOnly && programs.length > 0) {
    console.error(`test: --only ${options.only.join(', ')} selects test files, but these suites ` +
      `are programs without test files: ${programs.join(', ')}; run them without --only`)
    process.exit(2)
  }
  if (named.length > 0) return named
  return SUITES.filter(({ tier, kind, name }) =>
    TIERS.indexOf(tier) <= TIERS.indexOf(lastTier) &&
    !(isChosen && kind === 'program' && (hasOnly || name === 'audit')))
}

const say = (line: string) => console.log(`set-up: ${line}`)
const lines: Line[] = []
const skips: string[] = []

/** Prepares what the suites need; those that lack a foreign tool are left out, with the reason. */
async function prepared (suites: readonly Suite[]): Promise<readonly Suite[]> {
  if (suites.some(({ kind }) => kind === 'vitest')) await prepareStack(say)
  const wanted = new Set<ToolName>(suites.flatMap(({ tools = [] }) => tools))
  const missing = await prepareTools(wanted, say)
  return suites.filter(({ name, tools = [] }) => {
    const lacking = tools.find(tool => missing.has(tool))
    if (lacking === undefined) return true
    skips.push(`${name} skipped: ${lacking} cannot be had here. ${missing.get(lacking)}`)
    return false
  })
}

function runAllPrograms (programs: readonly Program[]): readonly Promise<void>[] {
  return runPrograms(programs, ({ name, isOk, output, seconds }) => {
    if (output.trim() !== '') console.log(output.trimEnd())
    console.log(`== ${name}: ${isOk ? 'ok' : 'FAILED'} in ${seconds.toFixed(1)} s`)
    lines.push({ name, passed: isOk ? 1 : 0, failed: isOk ? 0 : 1, skipped: 0, seconds })
  })
}

async function runVitest (suites: readonly Suite[]): Promise<void> {
  const progress = new Progress()
  progress.onStall(report => {
    console.error(report)
    console.log('\n0 passed, 1 failed')
    process.exit(1)
  })
  const vitest = await startVitest('test', [...options.only], {
    root,
    config: 'test/vitest.config.ts',
    project: suites.map(({ name }) => name),
    reporters: ['default', progress],
    watch: false,
    passWithNoTests: options.changed !== undefined,
    ...options.changed === undefined ? {} : { changed: options.changed },
  })
  progress.stop()
  for (const [name, { startedAtMs, endedAtMs, ...counts }] of progress.tallies) {
    lines.push({ name, ...counts, seconds: (endedAtMs - startedAtMs) / 1_000 })
  }
  const files = vitest.state.getFiles().map(({ filepath }) => filepath)
  for (const text of options.only) {
    if (options.changed !== undefined || files.some(path => path.includes(text))) continue
    console.error(`test: --only ${text} selects no test file of ` +
      suites.map(({ name }) => name).join(', '))
    lines.push({ name: `--only ${text}`, passed: 0, failed: 1, skipped: 0, seconds: 0 })
  }
  const isOk = process.exitCode === undefined || process.exitCode === 0
  const hasFailure = lines.some(({ failed }) => failed > 0)
  // What fails outside of a test, such as a stack that does not start or an unhandled rejection.
  if (!isOk && !hasFailure) {
    lines.push({ name: 'outside of tests', passed: 0, failed: 1, skipped: 0, seconds: 0 })
  }
  await vitest.close()
}

function printSummary (suites: readonly Suite[]): void {
  console.log('\nsuite              passed  failed  skipped  seconds')
  for (const { name, passed, failed, skipped, seconds } of lines) {
    console.log(name.padEnd(18) + String(passed).padStart(7) + String(failed).padStart(8) +
      String(skipped).padStart(9) + seconds.toFixed(0).padStart(9))
  }
  for (const { name, expectedSeconds } of suites) {
    const { seconds = 0 } = lines.find(line => line.name === name) ?? {}
    if (seconds > LONG * expectedSeconds) {
      console.log(`warning: ${name} took ${seconds.toFixed(0)} s, expected ${expectedSeconds} s`)
    }
  }
  for (const skip of skips) console.log(skip)
  const sum = (of: 'passed' | 'failed' | 'skipped') =>
    lines.reduce((total, line) => total + line[of], 0)
  const skipped = sum('skipped') + skips.length
  console.log(`\n${sum('passed')} passed, ${sum('failed')} failed` +
    (skipped > 0 ? `, ${skipped} skipped` : ''))
  process.exitCode = sum('failed') === 0 && sum('passed') > 0 ? 0 : 1
}

process.env['TEST_TIER'] = lastTier
ownFoldersOfRun()
const suites = await prepared(chosenSuites())
const programs = suites.flatMap(suite => suite.kind === 'program' ? [suite] : [])
const checks = runAllPrograms(programs.filter(({ tier }) => tier !== 'full'))
// The longest check uses one core for half a minute more: the other one begins with the tests.
await Promise.race(checks)
const files = suites.filter(({ kind }) => kind === 'vitest')
if (files.length > 0) await runVitest(files)
await Promise.all(checks)
await Promise.all(runAllPrograms(programs.filter(({ tier }) => tier === 'full')))
printSummary(suites)
process.exit()
