import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'

const root = join(import.meta.dirname, '..')
const CONFIG = 'test/knip.jsonc'
/** More issues than there can be: an exit code of 1 then means a pattern that matches nothing. */
const MAX_ISSUES = '1000000'
const MAX_OUTPUT_BYTES = 64 * 1_024 * 1_024

type Named = { readonly name: string }
type Report = {
  readonly issues: readonly (
    { readonly file: string } & Readonly<Record<string, readonly (Named | readonly Named[])[]>>
  )[]
}

type Problem = 'unused' | 'unlisted' | 'unresolved'

/** What is wrong, and what to do, by the problem; `users` are those that do not count. */
const ADVICE: Readonly<Record<Problem, (users: string) => string>> = {
  unused: users => `is used ${users}: remove it, or do not export it`,
  unlisted: () => 'is imported, but package.json does not list it: add it',
  unresolved: () => 'is imported, but does not exist: correct the path',
}

/**
 * The issues of a report of `knip --reporter json`: for each `path: name`, what is wrong. A file
 * that nothing imports has the name `(file)`.
 */
function readIssues (output: string): ReadonlyMap<string, Problem> {
  const { issues } = JSON.parse(output) as Report
  return new Map(issues.flatMap(({ file, ...types }) => Object.entries(types).flatMap(
    ([type, items]) => items.map(item => {
      const names = [item].flat().map(({ name }) => name).join(', ')
      const name = type === 'files' ? '(file)' : names
      return [`${file}: ${name}`, type in ADVICE ? type as Problem : 'unused'] as const
    }))))
}

/** A sentence for each issue of everything, and of the product without its tests. */
function describeIssues (
  everywhere: ReadonlyMap<string, Problem>, product: ReadonlyMap<string, Problem>
): readonly string[] {
  return [...new Map([...product, ...everywhere])].map(([issue, problem]) =>
    `${issue} ${ADVICE[problem](everywhere.has(issue) ? 'nowhere' : 'by tests only')}`)
}

/** Rejects when knip does not run, or when a pattern of its settings matches nothing. */
async function runKnip (...options: readonly string[]): Promise<ReadonlyMap<string, Problem>> {
  const words = [
    'node_modules/knip/bin/knip.js', '--config', CONFIG, '--reporter', 'json', '--no-progress',
    '--treat-config-hints-as-errors', '--max-issues', MAX_ISSUES, ...options,
  ]
  const { stdout } = await promisify(execFile)(process.execPath, words, {
    cwd: root, maxBuffer: MAX_OUTPUT_BYTES,
  }).catch((error: Error & { readonly code: unknown, readonly stderr: string }) => {
    throw new Error(error.code === 1
      ? `${CONFIG} has a pattern that matches nothing, which "npx knip -c ${CONFIG}" names: ` +
        'remove it'
      : `knip failed: ${error.message}`, { cause: error })
  })
  return readIssues(stdout)
}

/** Issues of everything, and of the product without its tests. */
export async function findUnused (): Promise<{
  readonly everywhere: ReadonlyMap<string, Problem>, readonly product: ReadonlyMap<string, Problem>
}> {
  const [everywhere, product] = await Promise.all([runKnip(), runKnip('--production')])
  return { everywhere, product }
}

if (import.meta.main) {
  const { everywhere, product } = await findUnused().catch((error: Error) => {
    console.error(`unused: ${error.message}`)
    process.exit(2)
  })
  const errors = describeIssues(everywhere, product)
  for (const error of errors) console.error(error)
  process.exitCode = errors.length === 0 ? 0 : 1
}
