import { execFile } from 'node:child_process'
import { hash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Command } from 'commander'

/** Licences under which the services may be shipped with what they run with (SPDX). */
const ALLOWED: ReadonlySet<string> = new Set([
  'MIT', 'ISC', 'Apache-2.0', 'BSD-2-Clause', 'BSD-3-Clause', '0BSD', 'BlueOak-1.0.0', 'CC0-1.0',
  'Unlicense', 'Python-2.0', 'CC-BY-4.0',
])

/** Packages whose package.json names no licence, but whose file LICENSE does. */
const LICENCE_IN_FILE: ReadonlySet<string> = new Set(['@kafkajs/confluent-schema-registry'])

type Licence = { readonly license?: { readonly id?: string, readonly name?: string } } &
  { readonly expression?: string }

type Component = {
  readonly type: string
  readonly name: string
  readonly version: string
  readonly purl: string
  readonly licenses?: readonly Licence[]
  readonly hashes?: readonly { readonly alg: string, readonly content: string }[]
  readonly properties?: readonly { readonly name: string, readonly value: string }[]
  readonly 'bom-ref'?: string
}

/** A software bill of materials in the format CycloneDX 1.5, as far as it is read here. */
type Bom = {
  readonly metadata: { readonly component: Pick<Component, 'name' | 'bom-ref'> }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string, readonly dependsOn: readonly string[] }[]
}

const root = join(import.meta.dirname, '..')

/**
 * The packages that services run with, by `npm sbom`, and the Node that runs them. `system` has a
 * line for each package of the system: name, version and architecture, separated by spaces.
 * Rejects with the message of npm, for example for packages that the lock file does not have.
 */
async function createBill (system = ''): Promise<Bom> {
  const { stdout } = await promisify(execFile)('npm', ARGUMENTS, {
    cwd: root, maxBuffer: 64 * 1_024 * 1_024,
  })
  const bom = JSON.parse(stdout) as Bom
  const shipped = bom.components.filter(component => !isForDevelopment(component))
  const others = new Set(bom.components.filter(isForDevelopment).map(other => other['bom-ref']))
  const { name } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Component
  return {
    ...bom,
    // npm gives it the name of the folder.
    metadata: { ...bom.metadata, component: { ...bom.metadata.component, name } },
    components: [...shipped.map(withLicence), describeNode(), ...parseSystem(system)],
    dependencies: bom.dependencies.filter(({ ref }) => !others.has(ref))
      .map(({ ref, dependsOn }) =>
        ({ ref, dependsOn: dependsOn.filter(other => !others.has(other)) })),
  }
}

/** With `--omit dev`, npm also omits packages that development needs as well. */
const ARGUMENTS = ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only']

const isForDevelopment = ({ properties = [] }: Component): boolean =>
  properties.some(({ name }) => name === 'cdx:npm:package:development')

const licensed = (id: string) => ({ licenses: [{ license: { id } }] })

/** The Node that runs this program, with the hash of its executable. */
function describeNode (): Component {
  return {
    type: 'platform',
    name: 'node',
    version: process.versions.node,
    purl: `pkg:generic/node@${process.versions.node}`,
    hashes: [{ alg: 'SHA-512', content: hash('sha512', readFileSync(process.execPath)) }],
    ...licensed('MIT'),
  }
}

function withLicence (component: Component): Component {
  const { name, licenses = [] } = component
  const file = join(root, 'node_modules', name, 'LICENSE')
  if (licenses.length > 0 || !LICENCE_IN_FILE.has(name) || !existsSync(file)) return component
  return readFileSync(file, 'utf8').includes('MIT License')
    ? { ...component, ...licensed('MIT') }
    : component
}

function parseSystem (system: string): readonly Component[] {
  return system.split('\n').filter(line => line.trim() !== '').map((line) => {
    const [name = '', version = '', architecture = ''] = line.split(' ')
    const at = `${encodeURIComponent(name)}@${encodeURIComponent(version)}`
    const purl = `pkg:deb/debian/${at}?arch=${architecture}`
    return { type: 'library', name, version, purl }
  })
}

/**
 * What is wrong with the licences of a bill: a line for each npm package that has none, or none
 * that is allowed. Packages of the system come under those of the distribution.
 */
function findLicenceErrors (bom: Bom): readonly string[] {
  return bom.components.filter(({ purl }) => purl.startsWith('pkg:npm/')).flatMap((component) => {
    const licences = (component.licenses ?? []).map(({ license, expression }) =>
      expression ?? license?.id ?? license?.name ?? '')
    if (licences.some(isAllowed)) return []
    const text = licences.length === 0
      ? 'names no licence'
      : `has the licence ${licences.join(', ')}`
    return [`${component.name} ${component.version} ${text}, which is not allowed: replace it or ` +
      'add the licence to deploy/sbom.ts if the services may be shipped with it']
  })
}

/** A licence that gives a choice is allowed when one of its parts is. */
const isAllowed = (expression: string): boolean =>
  expression.replace(/[()]/g, '').split(' OR ').some(licence => ALLOWED.has(licence))

const FAILED = 2

async function main (): Promise<void> {
  const { system, output } = new Command('sbom')
    .exitOverride(({ exitCode }) => process.exit(exitCode === 0 ? 0 : FAILED))
    .description('Writes the software bill of materials of the services (CycloneDX 1.5, JSON): ' +
      'npm packages, Node and, in the image, the packages of the system. Exits with 1 if a ' +
      'licence is not allowed, with 2 if the bill could not be written.')
    .option('--system <file>', 'packages of the system: lines of name, version, architecture')
    .option('-o, --output <file>', 'write to this file; standard output by default')
    .parse().opts<{ readonly system?: string, readonly output?: string }>()
  const bom = await createBill(system === undefined
    ? ''
    : onFile(() => readFileSync(system, 'utf8'), `--system ${system}`, 'be read'))
  const text = `${JSON.stringify(bom, undefined, 2)}\n`
  if (output === undefined) process.stdout.write(text)
  else onFile(() => writeFileSync(output, text), `--output ${output}`, 'be written')
  for (const error of findLicenceErrors(bom)) {
    console.error(error)
    process.exitCode = 1
  }
}

/** @throws Error that names the file and what to do. */
function onFile<T> (work: () => T, file: string, action: string): T {
  try {
    return work()
  } catch (error) {
    throw new Error(`${file} cannot ${action} (${(error as NodeJS.ErrnoException).code}): check ` +
      'that its folder exists and that you have access to it')
  }
}

if (import.meta.main) {
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    // The reader of a pipe, such as `head`, has closed it.
    if (error.code !== 'EPIPE') throw error
  })
  try {
    await main()
  } catch (error) {
    console.error(`sbom: ${error instanceof Error ? error.message : String(error)}`)
    process.exitCode = FAILED
  }
}
