import { sources, type Source } from './support/sources.ts'
import { importsOf } from './support/parsed.ts'

const USAGE = `Usage: npm run figures

Prints the size of the codebase: files, their sizes, files that only serve one other,
exported symbols, and the code that a row passes from POST to CSV.`

/** A file below it that only one other imports usually belongs into that one. */
const SMALL_FILE_LINES = 40

/** The stages a row passes, in order, by the entries of their processes. */
const ROW_PATH = [
  'ingest', 'normalize', 'lookup', 'verify', 'settle',
].map(stage => `services/${stage}/main.ts`)

type Row = readonly [figure: string, value: number | string]

/** Figures of the sources below `services/`, generated files left out. */
export function figuresOf (all: readonly Source[]): readonly Row[] {
  const files = all.filter(({ path }) => path.startsWith('services/'))
  const sizes = files.map(({ lines }) => lines.length).sort((a, b) => a - b)
  const at = (share: number) => sizes[Math.floor((sizes.length - 1) * share)] ?? 0
  const importers = importersOf(files)
  const lonely = files.filter(({ path, lines }) =>
    lines.length < SMALL_FILE_LINES && importers.get(path)?.length === 1)
  const path = reachedFrom(ROW_PATH, files)
  return [
    ['source files', files.length],
    ['lines', sum(sizes)],
    ['lines a file, median', at(0.5)],
    ['lines a file, 90th percentile', at(0.9)],
    [`files under ${SMALL_FILE_LINES} lines with one importer`, lonely.length],
    ['exported symbols', sum(files.map(({ text }) => text.match(/^export /gm)?.length ?? 0))],
    ['files that the processes of a row import', path.length],
    ['lines of those', sum(path.map(({ lines }) => lines.length))],
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

function reachedFrom (entries: readonly string[], files: readonly Source[]): readonly Source[] {
  const byPath = new Map(files.map(file => [file.path, file]))
  const reached = new Set<Source>()
  const visit = (path: string) => {
    const file = byPath.get(path)
    if (file === undefined || reached.has(file)) return
    reached.add(file)
    importsOf(file).forEach(visit)
  }
  entries.forEach(visit)
  return [...reached]
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, number) => total + number, 0)

if (import.meta.main) {
  if (process.argv.length > 2) console.log(USAGE)
  else {
    for (const [figure, value] of figuresOf(sources())) {
      console.log(`${figure.padEnd(44)}${value}`)
    }
  }
}
