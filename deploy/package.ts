import { execFile } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { promisify } from 'node:util'
import { generateDtsBundle } from 'dts-bundle-generator'
import { rolldown } from 'rolldown'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..')
const ENTRY = 'services/client/index'
const COMMAND = 'services/client/bin.js'
const PROJECT = join(root, 'deploy/package')

type Manifest = {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly engines: Readonly<Record<string, string>>
}

/**
 * Builds the npm package of the client and the command in a folder, which it replaces, and packs
 * it. Resolves with the path of the tarball. Rejects with the errors of the compiler: a function
 * that the oldest supported Node lacks is one of them. Npm accepts provenance only for packages
 * that name the `repository` (its web address) that they are built in.
 */
async function buildPackage (folder: string, repository?: string): Promise<string> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const content = join(folder, 'content')
  await bundle(content)
  const manifest = {
    ...readManifest(),
    ...repository && { repository: { type: 'git', url: `git+${repository}.git` } },
  }
  writeFileSync(join(content, 'package.json'), `${JSON.stringify(manifest, undefined, 2)}\n`)
  copyFileSync(join(root, 'services/client/README.md'), join(content, 'README.md'))
  copyFileSync(join(root, 'LICENSE'), join(content, 'LICENSE'))
  const { stdout } = await run('npm', ['pack', content, '--pack-destination', folder, '--json'])
  const [packed] = JSON.parse(stdout) as readonly { readonly filename: string }[]
  return join(folder, packed?.filename ?? '')
}

/**
 * Writes the programs, each with the parts of its packages that it runs, and the types. So the
 * package has no dependencies: with them it would take 38 MB, most of it never loaded.
 */
async function bundle (folder: string): Promise<void> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  await run(process.execPath, [tsc, '-p', PROJECT, '--noEmit']).catch(
    (error: Error & { readonly stdout: string }) => {
      throw new Error(`The client does not compile:\n${error.stdout}`, { cause: error })
    })
  const bundler = await rolldown({
    cwd: root,
    input: { index: `${ENTRY}.ts`, bin: 'services/client/bin.ts' },
    platform: 'node',
    external: /^node:/,
  })
  const { output } = await bundler.write({
    dir: join(folder, 'services/client'), format: 'esm', minify: { mangle: false, compress: false },
  })
  await bundler.close()
  const modules = output.flatMap(file => file.type === 'chunk' ? file.moduleIds : [])
  writeFileSync(join(folder, 'THIRD-PARTY-LICENSES'), collectNotices(modules))
  const [types = ''] = generateDtsBundle([{
    filePath: join(root, `${ENTRY}.ts`),
    libraries: { inlinedLibraries: ['typebox'] },
    output: { noBanner: true, exportReferencedTypes: false },
  }], { preferredConfigPath: join(PROJECT, 'tsconfig.json') })
  writeFileSync(join(folder, `${ENTRY}.d.ts`), types)
}

/** The licences of the packages that these modules are of. */
function collectNotices (modules: readonly string[]): string {
  const folders = new Set(modules.flatMap(id =>
    /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+/.exec(id)?.[0] ?? []))
  return [...folders].toSorted().map(folder => {
    const manifest = readFileSync(join(folder, 'package.json'), 'utf8')
    const { name, version, license } = JSON.parse(manifest) as Manifest
    const [file] = globSync('{LICENSE,LICENCE,license}*', { cwd: folder })
    const text = file === undefined ? '' : readFileSync(join(folder, file), 'utf8')
    return `${name} ${version} (${license})\n\n${text.trim()}\n`
  }).join('\n---\n\n')
}

/** The manifest of the package: what it shares with the service. */
function readManifest (): object {
  const { name, version, license, engines } =
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  return {
    name,
    version,
    description: 'Client, command and MCP server for Verification Jobs: verifies phone numbers ' +
      'and e-mail addresses',
    keywords: ['phone', 'email', 'verification', 'validation', 'mcp'],
    license,
    type: 'module',
    engines,
    bin: { [name]: COMMAND },
    exports: {
      '.': { types: `./${ENTRY}.d.ts`, default: `./${ENTRY}.js` },
      './package.json': './package.json',
    },
  }
}

const [folder = join(root, '.local/package'), repository] = process.argv.slice(2)
console.log(await buildPackage(resolve(folder), repository))
