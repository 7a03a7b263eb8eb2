import { Command } from 'commander'
import type { StagePath } from './row-path.ts'
import { findUnused } from './knip.ts'
import { sources, type Source } from './support/sources.ts'
import { importsOf, readPrivateFunctions } from './support/parsed.ts'

/** A private function of at most so many lines that is used once usually belongs into its user. */
const SMALL_FUNCTION_LINES = 7

/** A program has its own entry and settings, however small. */
const PROGRAM_ENTRY = /\/(main|config)\.ts$/

type Row = readonly [figure: string, value: number | string]

/** Figures of the sources: of the product and its tests, then of the files of `services/`. */
function figuresOf (all: readonly Source[]): readonly Row[] {
  const tests = all.filter(({ path }) => path.startsWith('test/'))
  const files = all.filter(({ path }) => path.startsWith('services/'))
  const sizes = files.map(({ lines }) => lines.length).sort((a, b) => a - b)
  const at = (share: number) => sizes[Math.floor((sizes.length - 1) * share)] ?? 0
  const importers = importersOf(files)
  const functions = files.flatMap(readPrivateFunctions)
  const usedOnce = functions.filter(({ uses }) => uses === 1)
  const total = (some: readonly Source[]) => sum(some.map(({ lines }) => lines.length))
  return [
    ['lines of the product', total(all) - total(tests)],
    ['lines of tests', total(tests)],
    ['source files under services/', files.length],
    ['lines a file, median', at(0.5)],
    ['lines a file, 90th percentile', at(0.9)],
    ['files with exactly one importer, without main.ts, config.ts',
      files.filter(({ path }) => importers.get(path)?.length === 1 && !PROGRAM_ENTRY.test(path))
        .length],
    ['private functions', functions.length],
    ['private functions used once', usedOnce.length],
    [`private functions used once of at most ${SMALL_FUNCTION_LINES} lines`,
      usedOnce.filter(({ lines }) => lines <= SMALL_FUNCTION_LINES).length],
    ['exported symbols', sum(files.map(({ text }) => text.match(/^export /gm)?.length ?? 0))],
  ]
}

function importersOf (files: readonly Source[]): ReadonlyMap<string, readonly string[]> {
  const importers = new Map<string, string[]>()
  for (const file of files) {
    for (const imported of new Set(importsOf(file))) {
      importers.set(imported, [...importers.get(imported) ?? [], file.path])
    }
  }
  return importers
}

/** Figures of the code that runs for a job of one row. */
function rowFiguresOf (stages: readonly StagePath[]): readonly Row[] {
  const files = stages.flatMap(stage => stage.files)
  const lines = files.flatMap(file => [...file.lines].map(line => `${file.path}:${line}`))
  return [
    ['files with functions that run for a job of one row', new Set(files.map(f => f.path)).size],
    ['lines of these functions', new Set(lines).size],
  ]
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

const print = (rows: readonly Row[]) => {
  for (const [figure, value] of rows) console.log(`${figure.padEnd(72)}${value}`)
}

function printPath (stages: readonly StagePath[]): void {
  for (const { stage, files } of stages) {
    console.log(`\n${stage}`)
    for (const { path, functions } of files) console.log(`  ${path}\n    ${functions.join(' ')}`)
  }
}

if (import.meta.main) {
  const { row } = new Command('figures')
    .description('Prints the size of the codebase: lines, files, files that only serve one ' +
      'other, private functions used once, exports that only tests use.')
    .option('--row', 'also the code that runs for a job of one row, from POST to CSV: starts a ' +
      'stack, and takes a minute')
    .parse()
    .opts<{ row?: true }>()
  print(figuresOf(sources()))
  const { everywhere, product } = await findUnused()
  print([['exports that only tests use, types included',
    [...product.keys()].filter(name => !everywhere.has(name)).length]])
  if (row === true) {
    // Imported on demand: what starts a stack takes time to load.
    const { measureRowPath } = await import('./row-path.ts')
    const stages = await measureRowPath()
    printPath(stages)
    console.log()
    print(rowFiguresOf(stages))
    process.exit()
  }
  console.log('\nThe files and functions that run for a row: npm run figures -- --row')
}
