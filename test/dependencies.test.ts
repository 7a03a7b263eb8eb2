import { createHash } from 'node:crypto'
import {
  cpSync, existsSync, mkdirSync, readFileSync, symlinkSync, writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { findingsIn } from './audit.ts'
import { runTool } from './support/deploy/tools.ts'
import { newFolder } from './support/folder.ts'
import { root } from './support/sources.ts'

type Locked = { readonly dev?: boolean, readonly version: string }

type Component = Readonly<Record<'name' | 'version' | 'purl' | 'bom-ref', string>> &
  { readonly hashes?: readonly object[] }
type Bom = {
  readonly metadata: { readonly component: Component }
  readonly components: readonly Component[]
  readonly dependencies: readonly { readonly ref: string, readonly dependsOn: readonly string[] }[]
}

const folder = newFolder('sbom-')

const sbom = (...words: readonly string[]) =>
  runTool(process.execPath, ['deploy/sbom.ts', ...words])

let bom: Bom
beforeAll(async () => {
  const [system, file] = [join(folder, 'system.txt'), join(folder, 'sbom.json')]
  writeFileSync(system, 'libc6 2.36-9+deb12u10 amd64\nzlib1g 1:1.2.13 amd64\n')
  expect(await sbom('--system', system, '-o', file), 'licences').toEqual({ code: 0, output: '' })
  bom = JSON.parse(readFileSync(file, 'utf8')) as Bom
})

describe('the software bill of materials', () => {
  it('names every package that the services run with', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      readonly packages: Readonly<Record<string, Locked>>
    }
    const shipped = Object.entries(lock.packages)
      .filter(([path, { dev }]) => path !== '' && dev !== true && existsSync(join(root, path)))
      .map(([path, { version }]) => `${path.split('node_modules/').at(-1)} ${version}`)
    expect(shipped.length).toBeGreaterThan(20)
    const named = new Set(bom.components.map(({ name, version }) => `${name} ${version}`))
    expect(shipped.filter(one => !named.has(one))).toEqual([])
  })

  it('has Node, and the packages of the system that it is given', () => {
    expect(bom.components.map(({ purl }) => purl)).toEqual(expect.arrayContaining([
      `pkg:generic/node@${process.versions.node}`,
      'pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64',
      'pkg:deb/debian/zlib1g@1%3A1.2.13?arch=amd64',
    ]))
  })

  it('has a hash for every package and for Node, and the name of the product', () => {
    const { hashes } = bom.components.find(({ purl }) => purl.startsWith('pkg:generic/node@'))!
    const content = createHash('sha512').update(readFileSync(process.execPath)).digest('hex')
    expect(hashes).toEqual([{ alg: 'SHA-512', content }])
    const withoutHash = bom.components.filter(one => one.hashes === undefined)
    expect(withoutHash.filter(({ purl }) => !purl.startsWith('pkg:deb/'))).toEqual([])
    expect(bom.metadata.component.name).toBe('verification-jobs')
  })

  it('depends on nothing that it does not name', () => {
    const refs = new Set([bom.metadata.component, ...bom.components].map(one => one['bom-ref']))
    const used = bom.dependencies.flatMap(({ ref, dependsOn }) => [ref, ...dependsOn])
    expect(used.filter(ref => !refs.has(ref))).toEqual([])
  })

  it.each([
    [['-o', '/no/such/dir/x'], '--output /no/such/dir/x cannot be written'],
    [['--system', '/no/such'], '--system /no/such cannot be read'],
  ])('is not written with %s, in one line that says why', async (words, why) => {
    const { code, output } = await sbom(...words)
    expect([code, output]).toEqual([2, `sbom: ${why} (ENOENT): check that its folder exists and ` +
      'that you have access to it\n'])
  })

  it('ends silently when the reader of its output is gone', async () => {
    const piped = '{ "$0" deploy/sbom.ts | head -1; } 2>&1'
    expect(await runTool('bash', ['-o', 'pipefail', '-c', piped, process.execPath]))
      .toEqual({ code: 0, output: '{\n' })
  })

  it('names packages without a licence, and those with one that is not allowed', async () => {
    const project = join(folder, 'project')
    mkdirSync(join(project, 'deploy'), { recursive: true })
    cpSync(join(root, 'deploy/sbom.ts'), join(project, 'deploy/sbom.ts'))
    symlinkSync(join(root, 'node_modules'), join(project, 'node_modules'))
    const licenses = {
      none: undefined, agpl: 'AGPL-3.0', file: 'SEE LICENSE IN README', choice: '(GPL-3.0 OR MIT)',
    }
    const main = {
      name: 'project',
      version: '1.0.0',
      type: 'module',
      dependencies: Object.fromEntries(Object.keys(licenses).map(name => [name, '1.0.0'])),
    }
    writeFileSync(join(project, 'package.json'), JSON.stringify(main))
    writeFileSync(join(project, 'package-lock.json'), JSON.stringify({
      ...main,
      lockfileVersion: 3,
      packages: {
        '': main,
        ...Object.fromEntries(Object.entries(licenses).map(([name, license]) =>
          [`node_modules/${name}`, { version: '1.0.0', ...license && { license } }])),
      },
    }))
    const written = [join(project, 'deploy/sbom.ts'), '-o', join(project, 'sbom.json')]
    const { code, output } = await runTool(process.execPath, written)
    expect([code, output.match(/^\S+ 1\.0\.0 .*(?=, which is not allowed)/gm)]).toEqual([1, [
      'agpl 1.0.0 has the licence AGPL-3.0',
      'file 1.0.0 names no licence',
      'none 1.0.0 names no licence',
    ]])
  })
})

it('each dependency has its reason in the documentation', () => {
  const { dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    readonly dependencies: Readonly<Record<string, string>>
  }
  const page = readFileSync(join(root, 'deploy/docs/dependencies.md'), 'utf8')
  const explained = [...page.matchAll(/^\| `(\S+)` \| .+ \|$/gm)].map(([, name]) => name)
  expect(explained).toEqual(Object.keys(dependencies))
})

describe('an audit', () => {
  const finding = (severity: string) => ({ name: 'left', severity, range: '<2' })

  it('finds grave vulnerabilities and no others', () => {
    const output = JSON.stringify({ vulnerabilities: { a: finding('high'), b: finding('low') } })
    expect(findingsIn(output)).toEqual([finding('high')])
    expect(findingsIn(JSON.stringify({ vulnerabilities: {} }))).toEqual([])
  })

  it('knows an answer from silence', () => {
    expect(findingsIn('')).toBeUndefined()
    expect(findingsIn(JSON.stringify({ error: { code: 'ENOAUDIT' } }))).toBeUndefined()
  })
})
