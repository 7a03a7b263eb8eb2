import { createHash } from 'node:crypto'
import { globSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { Command } from 'commander'
import { mutateRanges, type Mutant, type Report } from './stryker.ts'
import { sampleRanges } from './sample.ts'
import { scoreOf, spareTests } from './findings.ts'

const root = join(import.meta.dirname, '../..')
/** Tests of running services own what these say. */
const WIRING = new Set(['main.ts', 'config.ts'])
const SAVED = join(root, 'test/mutation.json')

type Score = { readonly score: number, readonly mutants: number }

const command = new Command('mutate')
  .description('Changes the code of a folder in one place at a time and runs its unit tests, and ' +
    'properties and integration tests without a stack. Prints the share of changes that a test ' +
    'finds, those that none finds, and unit tests whose changes others find as well: true of the ' +
    'functions that were changed, so take all (--mutants 9999) before you delete a test.')
  .argument('<path>', 'a folder or file of services/')
  .option('--mutants <number>', 'about so many, always the same functions', Number, 200)
  .option('--processes <number>', 'that run tests at a time', Number, 1)
  .option('--simulation', 'also runs the simulation, which takes seconds for each change')
  .option('--report <file>', "keeps Stryker's report")
  .option('--save', 'writes the score to test/mutation.json')
  .parse()
const [path = ''] = command.args
const options = command.opts<{
  readonly mutants: number
  readonly processes: number
  readonly simulation?: true
  readonly report?: string
  readonly save?: true
}>()

const files = statSync(join(root, path)).isFile()
  ? [path]
  : globSync(`${path}/**/*.ts`, { cwd: root }).toSorted()
const sources = files.filter(file => !WIRING.has(basename(file)))
  .map(file => ({ path: file, text: readFileSync(join(root, file), 'utf8') }))
const ranges = sampleRanges(sources, options.mutants)
/** Unit tests of other folders would hide that those of this one find nothing. */
const unitTests = (path.endsWith('.ts') ? dirname(path) : path).replace('services/', 'test/unit/')
const { processes, simulation = false } = options
const report = await mutateRanges(
  { root, ranges, unitTests, processes, simulation }, line => console.error(line))

const score = scoreOf(report)
for (const line of linesOf(report)) console.log(line)
console.log(`${path}: ${score.score} % of ${score.mutants} mutants are found`)
if (options.report !== undefined) writeFileSync(options.report, JSON.stringify(report))
if (options.save) save(path, score)

function linesOf (report: Report): readonly string[] {
  const survivors = Object.entries(report.files).flatMap(([file, { mutants }]) =>
    mutants.filter(({ status }) => status === 'Survived' || status === 'NoCoverage')
      .map(mutant => `not found: ${file}:${wordsOf(mutant)}`))
  const spare = spareTests(report, unitTests)
  return [...survivors, ...spare.map(test => `redundant: ${test}`)]
}

function wordsOf ({ location, mutatorName, replacement = '' }: Mutant): string {
  const shown = replacement.replaceAll(/\s+/g, ' ').slice(0, 60)
  return `${location.start.line} ${mutatorName} ${shown}`
}

/** One line for each folder, with a digest of the code that was mutated. */
function save (path: string, { score, mutants }: Score): void {
  const saved = JSON.parse(readFileSync(SAVED, 'utf8')) as Record<string, unknown>
  const digest = createHash('sha256').update(sources.map(({ text }) => text).join('\n'))
    .digest('hex').slice(0, 12)
  const all = Object.entries({ ...saved, [path]: { score, mutants, digest } })
    .toSorted(([a], [b]) => a < b ? -1 : 1)
  const lines = all.map(([name, value]) => `  ${JSON.stringify(name)}: ${JSON.stringify(value)}`)
  writeFileSync(SAVED, `{\n${lines.join(',\n')}\n}\n`)
}
