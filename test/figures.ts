import { Command } from 'commander'
import type { StagePath } from './row-path.ts'
import { sources, type Source } from './support/sources.ts'
import { importsOf } from './support/parsed.ts'

/** A file below it that only one other imports usually belongs into that one. */
const SMALL_FILE_LINES = 40

/** A program has its own entry and settings, however small. */
const PROGRAM_ENTRY = /\/(main|config)\.ts$/

type Row = readonly [figure: string, value: number | string]

/** Figures of the sources below `services/`, generated files left out. */
export function figuresOf (all: readonly Source[]): readonly Row[] {
  const files = all.filter(({ path }) => path.startsWith('services/'))
  const sizes = files.map(({ lines }) => lines.length).sort((a, b) => a - b)
  const at = (share: number) => sizes[Math.floor((sizes.length - 1) * share)] ?? 0
  const importers = importersOf(files)
  const lonely = files.filter(({ path, lines }) =>
    lines.length < SMALL_FILE_LINES && importers.get(path)?.length === 1 &&
    !PROGRAM_ENTRY.test(path))
  return [
    ['source files', files.length],
    ['lines', sum(sizes)],
    ['lines a file, median', at(0.5)],
    ['lines a file, 90th percentile', at(0.9)],
    [`files under ${SMALL_FILE_LINES} lines with one importer, without main.ts, config.ts`,
      lonely.length],
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
export function rowFiguresOf (stages: readonly StagePath[]): readonly Row[] {
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
    .description('Prints the size of the codebase: files, their sizes, files that only serve one ' +
      'other, exported symbols.')
    .option('--row', 'also the code that runs for a job of one row, from POST to CSV: starts a ' +
      'stack, and takes a minute')
    .parse()
    .opts<{ row?: true }>()
  print(figuresOf(sources()))
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
