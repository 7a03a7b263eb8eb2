import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { billOfMaterials, licenceErrors, type Component } from '../deploy/sbom.ts'
import { findingsIn } from './audit.ts'
import { runTool } from './support/deploy/deploy-tools.ts'
import { root } from './support/sources.ts'

type Locked = { readonly dev?: boolean, readonly version: string }

const bom = await billOfMaterials('libc6 2.36-9+deb12u10 amd64\nzlib1g 1:1.2.13 amd64\n')
const component = (licenses: Component['licenses']): Component => ({
  type: 'library',
  name: 'left',
  version: '1.0.0',
  purl: 'pkg:npm/left@1.0.0',
  ...licenses && { licenses },
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
    const { code, output } = await runTool(process.execPath, ['deploy/sbom.ts', ...words])
    expect([code, output]).toEqual([2, `sbom: ${why} (ENOENT): check that its folder exists and ` +
      'that you have access to it\n'])
  })

  it('ends silently when the reader of its output is gone', async () => {
    const piped = '{ "$0" deploy/sbom.ts | head -1; } 2>&1'
    expect(await runTool('bash', ['-o', 'pipefail', '-c', piped, process.execPath]))
      .toEqual({ code: 0, output: '{\n' })
  })

  it('has only licences under which the services may be shipped', () => {
    expect(licenceErrors(bom)).toEqual([])
  })

  it('reports a package without a licence, and one with a licence that is not allowed', () => {
    const errorsOf = (licenses: Component['licenses']) =>
      licenceErrors({ components: [component(licenses)] })
    expect(errorsOf(undefined)).toEqual([expect.stringContaining('left 1.0.0 names no licence')])
    expect(errorsOf([{ license: { id: 'AGPL-3.0' } }]))
      .toEqual([expect.stringContaining('has the licence AGPL-3.0')])
    expect(errorsOf([{ license: { name: 'SEE LICENSE IN README' } }])).toHaveLength(1)
    expect(errorsOf([{ expression: '(GPL-3.0 OR MIT)' }])).toEqual([])
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
