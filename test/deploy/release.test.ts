import { mkdirSync, readdirSync, readFileSync, symlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import Schema from 'typebox/schema'
import { describe, expect, it } from 'vitest'
import { installActionlint, installHelm, type Ran, runTool } from '../support/deploy/tools.ts'
import { newFolder } from '../support/folder.ts'
import { root } from '../support/sources.ts'
import { minimal } from '../support/deploy/chart.ts'
import { yamlOf } from '../support/deploy/yaml.ts'

type Step = { readonly uses?: string, readonly run?: string }
type Job = {
  readonly steps: readonly Step[]
  readonly permissions: Readonly<Record<string, string>>
  readonly env?: Readonly<Record<string, string>>
}

const FILE = join(root, '.github/workflows/release.yml')
const text = readFileSync(FILE, 'utf8')
const [workflow] = yamlOf(text) as readonly [{ readonly jobs: Readonly<Record<string, Job>> }]
const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as
  { readonly version: string }
const build = workflow.jobs['build'] as Job
const SCHEMAS = join(root, 'node_modules/@cyclonedx/cyclonedx-library/res/schema')
const ignore = () => {}

/** A checkout of its own for what the commands write. */
const checkout = newFolder('release-')
const built = join(checkout, '.local/release')

/** Runs a command of the workflow as its runner does. */
const runCommand = async (command: string, tag: string): Promise<Ran> =>
  await runTool('bash', ['--noprofile', '--norc', '-eo', 'pipefail', '-c',
    `cd "$CHECKOUT"\n${command}`], { ...env, GITHUB_REF_NAME: tag })

for (const name of readdirSync(root).filter(name => !['.git', '.local'].includes(name))) {
  symlinkSync(join(root, name), join(checkout, name))
}
mkdirSync(join(checkout, '.local'))
const helm = await installHelm(ignore)
const env = {
  ...build.env,
  CHECKOUT: checkout,
  GITHUB_SERVER_URL: 'https://github.com',
  GITHUB_REPOSITORY: 'example/verification-jobs',
  PATH: [dirname(helm), dirname(process.execPath), process.env['PATH']].join(':'),
}
for (const { run } of build.steps) {
  if (run === undefined) continue
  const { code, output } = await runCommand(run, `v${version}`)
  expect([run, code, output]).toEqual([run, 0, expect.any(String)])
}

describe('the job that builds a release', () => {
  it('makes a chart of the version that installs the image of the same version', async () => {
    const chart = join(built, `verification-jobs-${version}.tgz`)
    const [about] = yamlOf((await runTool(helm, ['show', 'chart', chart])).output)
    expect(about).toMatchObject({ version, appVersion: version })
    const { code, output } = await runTool(helm,
      ['template', 'vj', chart, '--kube-version', '1.30.0', ...minimal])
    expect(code, output).toBe(0)
    const images = [...output.matchAll(/^ +image: (.+)$/gm)].map(([, image]) => image)
    expect(new Set(images)).toEqual(new Set([`verification-jobs:${version}`]))
  })

  it('makes a bill of materials that the schema of CycloneDX accepts', () => {
    const read = (name: string) =>
      JSON.parse(readFileSync(join(SCHEMAS, `${name}.SNAPSHOT.schema.json`), 'utf8')) as
        { readonly $id: string }
    const context = Object.fromEntries(['spdx', 'jsf-0.82'].map(read)
      .map(schema => [schema.$id.replace('.schema.json', '.SNAPSHOT.schema.json'), schema]))
    const faultsOf = (bill: unknown) => Schema.Errors(context, read('bom-1.5'), bill)[1]
    const bill = JSON.parse(readFileSync(join(built, 'sbom.json'), 'utf8')) as
      { readonly components: readonly object[] }
    expect(faultsOf(bill)).toEqual([])
    expect(bill.components.length).toBeGreaterThan(20)
    const licenses = [{ license: { id: 'Unknown-1.0' } }]
    expect(faultsOf({ ...bill, components: [{ ...bill.components[0], licenses }] }))
      .not.toEqual([])
  })

  it('makes an npm package of the version that names its repository, as npm demands', async () => {
    const { output } = await runTool('tar', ['--extract', '--to-stdout', '--file',
      join(built, `npm-${version}.tgz`), 'package/package.json'])
    expect(JSON.parse(output)).toMatchObject({
      name: 'verification-jobs',
      version,
      repository: { type: 'git', url: 'git+https://github.com/example/verification-jobs.git' },
    })
  })

  it('makes nothing else', () => {
    expect(readdirSync(built).toSorted())
      .toEqual([`npm-${version}.tgz`, 'sbom.json', `verification-jobs-${version}.tgz`])
  })

  it('refuses a tag that is not the version', async () => {
    const [check = ''] = build.steps.flatMap(({ run = [] }) => run)
    expect(await runCommand(check, 'v999.0.0')).toEqual({
      code: 1,
      output: `the tag is v999.0.0, but package.json or Chart.yaml has v${version}\n`,
    })
  })
})

describe('the workflow of a release', () => {
  it('passes the linter of workflows', async () => {
    expect(await runTool(await installActionlint(ignore), [FILE])).toEqual({ code: 0, output: '' })
  })

  it('pins every action to a commit, with its version beside it', () => {
    const uses = [...text.matchAll(/uses: (.+)$/gm)].map(([, action = '']) => action)
    const steps = Object.values(workflow.jobs).flatMap(job => job.steps)
    expect(uses).toHaveLength(steps.filter(step => step.uses !== undefined).length)
    expect(uses.filter(action => !/^[\w-]+\/[\w-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$/.test(action)))
      .toEqual([])
  })

  it('lets only the job that runs no tests and builds no packages publish', () => {
    const { publish, ...others } = workflow.jobs
    for (const { permissions } of Object.values(others)) {
      expect(permissions).toEqual({ contents: 'read' })
    }
    expect(publish?.permissions).toMatchObject({ 'id-token': 'write', packages: 'write' })
    expect(publish?.steps.map(({ run = '' }) => run).join('\n')).not.toContain('npm run')
  })
})
