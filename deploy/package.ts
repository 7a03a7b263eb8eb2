import { execFile } from 'node:child_process'
import { copyFileSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = join(import.meta.dirname, '..')
const ENTRY = 'services/client/index'
const COMMAND = 'services/client/bin.js'

type Manifest = {
  readonly name: string
  readonly version: string
  readonly license: string
  readonly engines: Readonly<Record<string, string>>
  readonly dependencies: Readonly<Record<string, string>>
}

/**
 * Builds the npm package of the client and the command in a folder, which it replaces, and packs
 * it. Resolves with the path of the tarball. Rejects with the errors of the compiler: a function
 * that the oldest supported Node lacks is one of them.
 */
async function buildPackage (folder: string): Promise<string> {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const content = join(folder, 'content')
  await compile(content)
  writeFileSync(join(content, 'package.json'),
    `${JSON.stringify(manifestOf(content), undefined, 2)}\n`)
  copyFileSync(join(root, 'services/client/README.md'), join(content, 'README.md'))
  copyFileSync(join(root, 'LICENSE'), join(content, 'LICENSE'))
  const { stdout } = await run('npm', ['pack', content, '--pack-destination', folder, '--json'])
  const [packed] = JSON.parse(stdout) as readonly { readonly filename: string }[]
  return join(folder, packed?.filename ?? '')
}

async function compile (folder: string): Promise<void> {
  const tsc = join(root, 'node_modules/typescript/bin/tsc')
  const project = join(root, 'deploy/package')
  await run(process.execPath, [tsc, '-p', project, '--outDir', folder]).catch(
    (error: Error & { readonly stdout: string }) => {
      throw new Error(`The client does not compile:\n${error.stdout}`, { cause: error })
    })
}

/** The manifest of the package: what it shares with the service, and what its files import. */
function manifestOf (folder: string): object {
  const { name, version, license, engines, dependencies } =
    JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
  const imported = importedPackages(folder)
  const unknown = imported.filter(one => dependencies[one] === undefined)
  if (unknown.length > 0) {
    throw new Error(`the client imports ${unknown.join(', ')}, which package.json does not list ` +
      'under dependencies')
  }
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
    dependencies: Object.fromEntries(imported.map(one => [one, dependencies[one]])),
  }
}

/** Names of the packages that compiled files import, types included, sorted. */
function importedPackages (folder: string): readonly string[] {
  const files = globSync('**/*.{js,d.ts}', { cwd: folder })
  const names = files.flatMap(file => {
    const specifiers = readFileSync(join(folder, file), 'utf8')
      .matchAll(/\b(?:from|import)\s*\(?\s*["']([^"'.\s][^"'\s]*)["']/g)
    return [...specifiers].map(([, specifier = '']) => packageOf(specifier))
  })
  return [...new Set(names)].filter(name => !name.startsWith('node:')).toSorted()
}

/** `@scope/name/path` and `name/path` without the path. */
const packageOf = (specifier: string) =>
  specifier.split('/').slice(0, specifier.startsWith('@') ? 2 : 1).join('/')

const [folder = join(root, '.local/package')] = process.argv.slice(2)
console.log(await buildPackage(folder))
