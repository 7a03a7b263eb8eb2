import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { installOnce, type Say } from '../../deploy/local/parts.ts'

const run = promisify(execFile)
const VERSION = '10.1.1'
const REPORT = 'reports/mutation.json'

/** A report of Stryker, as far as it is read here. */
export type Report = {
  readonly files: Readonly<Record<string, { readonly mutants: readonly Mutant[] }>>
  readonly testFiles: Readonly<Record<string, { readonly tests: readonly MutantTest[] }>>
}
export type Mutant = {
  readonly status: string
  readonly mutatorName: string
  readonly replacement?: string
  readonly location: { readonly start: { readonly line: number } }
  /** Identities of all tests that fail with it. */
  readonly killedBy?: readonly string[]
}
type MutantTest = { readonly id: string, readonly name: string }

/** The folder with Stryker's packages, next to other tools, as only this command needs them. */
async function installStryker (vitest: string, say: Say): Promise<string> {
  return await installOnce(`stryker-${VERSION}-vitest-${vitest}`, async folder => {
    say(`installing Stryker ${VERSION} with npm (100 MB, once)`)
    await run('npm', [
      'install', '--prefix', folder, '--no-audit', '--no-fund', '--ignore-scripts',
      `@stryker-mutator/core@${VERSION}`, `@stryker-mutator/vitest-runner@${VERSION}`,
      `vitest@${vitest}`,
    ])
  })
}

/**
 * Mutates line ranges (`path:first-last`) in a copy of the repository, and runs the tests of
 * `vitest.config.ts` that import them, all of them for each mutant. Throws when a test fails
 * without a mutant.
 */
export async function mutateRanges (
  { root, ranges, unitTests, processes, simulation }: {
    readonly root: string
    readonly ranges: readonly string[]
    /** The folder with the unit tests of what is mutated. */
    readonly unitTests: string
    readonly processes: number
    readonly simulation: boolean
  },
  say: Say
): Promise<Report> {
  const { version } = JSON.parse(
    readFileSync(join(root, 'node_modules/vitest/package.json'), 'utf8')) as { version: string }
  const home = await installStryker(version, say)
  const folder = mkdtempSync(join(tmpdir(), 'mutate-'))
  try {
    await copyRepository(root, folder)
    const packages = join(home, 'node_modules/@stryker-mutator')
    writeFileSync(join(folder, 'stryker.json'), JSON.stringify({
      testRunner: 'vitest',
      plugins: [join(packages, 'vitest-runner/dist/src/index.js')],
      vitest: { configFile: 'test/mutate/vitest.config.ts' },
      mutate: ranges,
      inPlace: true,
      tempDirName: join(folder, '.stryker'),
      disableBail: true,
      disableTypeChecks: false,
      ignoreStatic: true,
      checkers: [],
      concurrency: processes,
      timeoutMS: 20_000,
      allowConsoleColors: false,
      reporters: ['json', 'progress-append-only'],
      jsonReporter: { fileName: REPORT },
    }))
    const stryker = spawn(
      process.execPath, [join(packages, 'core/bin/stryker.js'), 'run', 'stryker.json'],
      {
        cwd: folder,
        stdio: ['ignore', 'inherit', 'inherit'],
        env: {
          ...process.env,
          MUTATE_UNIT_TESTS: unitTests,
          MUTATE_SIMULATION: String(simulation),
        },
      })
    // Its end ends this run, which then removes the copy.
    for (const end of ['SIGINT', 'SIGTERM'] as const) process.once(end, () => stryker.kill(end))
    const [code] = await once(stryker, 'exit') as [number | null]
    if (code !== 0) throw new Error(`Stryker ended with ${code}: see its messages`)
    return JSON.parse(readFileSync(join(folder, REPORT), 'utf8')) as Report
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Copies what git knows or would add; packages are linked. */
async function copyRepository (root: string, folder: string): Promise<void> {
  const { stdout } = await run('git', ['ls-files', '-co', '--exclude-standard', '-z'],
    { cwd: root, maxBuffer: 2 ** 26 })
  for (const path of stdout.split('\0').filter(path => path !== '')) {
    cpSync(join(root, path), join(folder, path), { force: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
}
