import { createHash } from 'node:crypto'
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Command, Option } from 'commander'
import { newFolder, ownFoldersOfRun } from '../support/folder.ts'
import { importsOf } from '../support/parsed.ts'
import { root, sources } from '../support/sources.ts'
import { missedOf, scoreOf, spareTests } from './findings.ts'
import { instrument } from './instrument.ts'
import type { Mutant, Report, TestResult } from './report.ts'
import { runTestFile } from './runs.ts'

/** Tests of running services own what these say, but for a stage in its `main.ts`. */
const WIRING = new Set(['main.ts', 'config.ts'])
const STAGE = /(: |implements )Stage<'/
const SAVED = join(root, 'test/mutation.json')
const SIMULATION = 'test/mutate/simulation.ts'
/** Integration tests that start a Redis of their own and need nothing else. */
const ON_REDIS = [
  'cache', 'cancel', 'compare-and-set', 'erasures', 'jobs', 'limits', 'lookup', 'money',
  'partner-feed', 'publish', 'settle', 'verify/*',
]

/** JSON has no infinity. */
const UNLIMITED_MS = Number.MAX_SAFE_INTEGER

type Score = { readonly score: number, readonly mutants: number }

const command = new Command('mutate')
  .description('Changes the code of a folder in one place at a time and runs its unit tests, and ' +
    'properties and integration tests without a stack. Prints the share of changes that a test ' +
    'finds, those that none finds, and tests whose changes others find as well. Tests that take ' +
    'long with all changes run only with those that no other test finds.')
  .argument('<path>', 'a folder or file of services/')
  .option('--processes <number>', 'that run tests at a time', Number, 2)
  .option('--seconds <number>', 'a test may take with all changes', Number, 30)
  .option('--tests <glob...>', 'only these files of tests, in this order')
  .option('--once', 'runs each change until a test finds it, which takes a fraction of the time: ' +
    'tests that find none are redundant beside those before them')
  .addOption(new Option('--sample <number>', 'only so many changes, evenly drawn and always the ' +
    'same: with --once the share of a whole folder in minutes, without it also the tests that ' +
    'may be redundant')
    .argParser(Number).conflicts('save'))
  .option('--simulation', 'also runs the simulation, which takes seconds for each change')
  .option('--report <file>', 'keeps what each test found, as JSON')
  .option('--save', 'writes the score to test/mutation.json')
  .parse()
const [path = ''] = command.args
const options = command.opts<{
  readonly processes: number
  readonly seconds: number
  readonly tests?: readonly string[]
  readonly once?: true
  readonly sample?: number
  readonly simulation?: true
  readonly report?: string
  readonly save?: true
}>()

const files = statSync(join(root, path)).isFile()
  ? [path]
  : globSync(`${path}/**/*.ts`, { cwd: root }).toSorted()
const mutated = files.filter(file =>
  !WIRING.has(basename(file)) || STAGE.test(readFileSync(join(root, file), 'utf8')))
/** Unit tests of other folders would hide that those of this one find nothing. */
const unitTests = (path.endsWith('.ts') ? dirname(path) : path).replace('services/', 'test/unit/')
ownFoldersOfRun()
const folder = newFolder('mutate-')
for (const end of ['SIGINT', 'SIGTERM'] as const) process.once(end, () => process.exit(1))

const allMutants = await instrument(folder, mutated, line => console.error(line))
const mutants = options.sample === undefined ? allMutants : sample(allMutants, options.sample)
const unitPattern = `${unitTests}/**/*.test.ts`
const patterns = options.tests ?? [
  // For the share of a sample alone the fastest find what they can first.
  ...options.sample !== undefined && options.once ? [unitPattern] : [],
  ...ON_REDIS.map(name => `test/integration/${name}.test.ts`),
  'test/properties/**/*.test.ts', 'test/accuracy/phones.test.ts', unitPattern,
  ...options.simulation ? [SIMULATION] : [],
]
const matches = patterns.flatMap(pattern => globSync(pattern, { cwd: root }).toSorted())
const testFiles = importersOf(new Set(mutated), [...new Set(matches)])
const report = await mutate(mutants, testFiles)
const score = scoreOf(report)
for (const line of linesOf(report)) console.log(line)
console.log(`${path}: ${score.score} % of ${score.mutants} mutants are found`)
if (options.report !== undefined) writeFileSync(options.report, JSON.stringify(report))
if (options.save) save(path, score)
process.exit()

/** So many of all, evenly drawn: a folder has the same sample until it changes. */
function sample <T> (all: readonly T[], size: number): readonly T[] {
  const step = Math.max(1, all.length / size)
  return all.filter((_, index) => Math.floor(index / step) !== Math.floor((index - 1) / step))
}

/** The test files that import one of these, in however many steps. */
function importersOf (
  imported: ReadonlySet<string>, tests: readonly string[]
): readonly string[] {
  const known = new Map(sources().map(source => [source.path, source]))
  const reaches = new Map<string, boolean>()
  const reachesOne = (path: string): boolean => {
    const before = reaches.get(path)
    if (before !== undefined) return before
    reaches.set(path, imported.has(path))
    const source = known.get(path)
    const isReached = imported.has(path) || (source && importsOf(source).some(reachesOne)) === true
    reaches.set(path, isReached)
    return isReached
  }
  return tests.filter(test => reachesOne(test))
}

/** Runs all tests, and then those that take long with the mutants that the others miss. */
async function mutate (
  all: readonly Mutant[], testFiles: readonly string[]
): Promise<Report> {
  const maxMs = 1_000 * options.seconds
  const fixed = new Set<string>()
  const tests: TestResult[] = []
  const slowFiles: string[] = []
  await forEachAtATime(testFiles, async file => {
    // What a disturbed test finds may be found by none.
    const reliable = tests.filter(({ isDisturbed }) => !isDisturbed)
    const left = options.once ? missedOf({ mutants: all, tests: reliable }) : all
    const only = left.map(({ id }) => id)
    const result = await runTestFile(folder, file,
      { maxMs, only, isUntilFound: options.once === true }, line => console.error(line))
    for (const id of result.fixed) fixed.add(id)
    tests.push(...result.tests)
    if (result.tests.some(({ isSlow }) => isSlow)) slowFiles.push(file)
  })
  // Code that runs only while modules are loaded cannot be switched.
  const reached = new Set(tests.flatMap(test => test.reached))
  const mutants = all.filter(({ id }) => reached.has(id) || !fixed.has(id))
  for (const file of slowFiles) {
    const only = missedOf({ mutants, tests }).map(({ id }) => id).filter(id => reached.has(id))
    const again = await runTestFile(folder, file,
      { maxMs: UNLIMITED_MS, only, isUntilFound: true }, line => console.error(line))
    for (const [index, test] of tests.entries()) {
      if (test.file !== file || !test.isSlow) continue
      const { kills = [] } = again.tests.find(({ name }) => name === test.name) ?? {}
      tests[index] = { ...test, kills }
    }
  }
  return { mutants, tests }
}

async function forEachAtATime (
  names: readonly string[], run: (name: string) => Promise<void>
): Promise<void> {
  const left = [...names]
  await Promise.all(Array.from({ length: options.processes }, async () => {
    for (let name = left.shift(); name !== undefined; name = left.shift()) await run(name)
  }))
}

function linesOf (report: Report): readonly string[] {
  // What finds none of a sample may find another change: a sample only names whom to ask.
  const word = options.sample === undefined ? 'redundant' : 'may be redundant'
  return [
    ...missedOf(report).map(mutant => `not found: ${wordsOf(mutant)}`),
    ...spareTests(report, isProperty).map(test => `${word}: ${test}`),
  ]
}

/** Whether a test draws its cases, by fast-check or from numbers that are seeds. */
function isProperty (file: string): boolean {
  return /\bfc\.assert|\bseededRandom\b|describeBusContract/
    .test(readFileSync(join(root, file), 'utf8'))
}

function wordsOf ({ file, line, kind, replacement }: Mutant): string {
  return `${file}:${line} ${kind} ${replacement.replaceAll(/\s+/g, ' ').slice(0, 60)}`
}

/** One line for each folder, with a digest of the code that was mutated. */
function save (path: string, { score, mutants }: Score): void {
  const saved = JSON.parse(readFileSync(SAVED, 'utf8')) as Record<string, unknown>
  const digest = createHash('sha256')
    .update(mutated.map(name => readFileSync(join(root, name), 'utf8')).join('\n'))
    .digest('hex').slice(0, 12)
  const all = Object.entries({ ...saved, [path]: { score, mutants, digest } })
    .toSorted(([a], [b]) => a < b ? -1 : 1)
  const lines = all.map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)}`)
  writeFileSync(SAVED, `{\n${lines.join(',\n')}\n}\n`)
}
