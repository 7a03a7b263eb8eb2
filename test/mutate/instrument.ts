import { execFile } from 'node:child_process'
import { cpSync, existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { installOnce } from '../../deploy/local/install.ts'
import type { Say } from '../../deploy/local/parts.ts'
import { root } from '../support/sources.ts'
import type { Mutant } from './report.ts'

const run = promisify(execFile)
const VERSION = '10.1.1'

type Instrument = (
  files: readonly { readonly name: string, readonly mutate: true, readonly content: string }[],
  options: object
) => Promise<{
  readonly files: readonly { readonly name: string, readonly content: string }[]
  readonly mutants: readonly {
    readonly id: string
    readonly fileName: string
    readonly mutatorName: string
    readonly replacement: string
    readonly status?: string
    readonly location: { readonly start: { readonly line: number } }
  }[]
}>

type Mutator = {
  readonly name: string
  readonly mutate: (path: {
    isExpressionStatement: () => boolean
    readonly node: { readonly expression?: { readonly callee?: { readonly type: string } } }
  }) => readonly object[]
}

/** A call whose result is not used, or an assignment, is left out: Stryker has no such mutant. */
const leaveOutStatement: Mutator = {
  name: 'StatementDeletion',
  mutate: path => path.isExpressionStatement() && path.node.expression?.callee?.type !== 'Super'
    ? [{ type: 'EmptyStatement' }]
    : [],
}

/** Stryker's instrumenter, next to other tools, as only this command needs it. */
async function installInstrumenter (say: Say): Promise<string> {
  return await installOnce(`stryker-instrumenter-${VERSION}`, async folder => {
    say(`installing the instrumenter of Stryker ${VERSION} with npm (once)`)
    await run('npm', [
      'install', '--prefix', folder, '--no-audit', '--no-fund', '--ignore-scripts',
      `@stryker-mutator/instrumenter@${VERSION}`,
    ])
  })
}

/**
 * Copies the repository to a folder, where these sources have all mutants at once. A global
 * variable says which one is active.
 */
export async function instrument (
  folder: string, paths: readonly string[], say: Say
): Promise<readonly Mutant[]> {
  const home = await installInstrumenter(say)
  const source = join(home, 'node_modules/@stryker-mutator/instrumenter/dist/src')
  const { Instrumenter } = await import(join(source, 'instrumenter.js')) as {
    Instrumenter: new (log: object) => { instrument: Instrument }
  }
  const { allMutators } = await import(join(source, 'mutators/mutate.js')) as {
    allMutators: Mutator[]
  }
  allMutators.push(leaveOutStatement)
  await copyRepository(folder)
  const log = { debug: () => {}, info: () => {}, warn: () => {}, isDebugEnabled: () => false }
  const { files, mutants } = await new Instrumenter(log).instrument(
    paths.map(name =>
      ({ name, mutate: true, content: readFileSync(join(root, name), 'utf8') })),
    { plugins: null, excludedMutations: [], ignorers: [] })
  for (const { name, content } of files) writeFileSync(join(folder, name), content)
  return mutants.filter(({ status }) => status !== 'Ignored')
    .map(({ id, fileName: file, mutatorName: kind, replacement, location: { start } }) =>
      ({ id, file, line: start.line + 1, kind, replacement }))
}

/** Copies what git knows or would add; packages are linked. */
async function copyRepository (folder: string): Promise<void> {
  const { stdout } = await run('git', ['ls-files', '-co', '--exclude-standard', '-z'],
    { cwd: root, maxBuffer: 2 ** 26 })
  for (const path of stdout.split('\0')) {
    if (path === '' || !existsSync(join(root, path))) continue
    cpSync(join(root, path), join(folder, path), { force: true })
  }
  symlinkSync(join(root, 'node_modules'), join(folder, 'node_modules'))
}
