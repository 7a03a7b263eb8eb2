import { writeFileSync } from 'node:fs'
import { PassThrough } from 'node:stream'
import { text } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { ConfigError } from '../../../services/runtime/platform/config.ts'
import type { Environment } from '../../../services/runtime/platform/command-environment.ts'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { KEY_CLASSES } from '../../../services/topology.ts'
import { helpOf, leavesOf, openOn, runCommand } from '../../support/admin.ts'
import { newFolder } from '../../support/folder.ts'
import { openWorkspace } from './workspace.ts'

const unlocked: string[] = []
const { deps } = await openWorkspace({
  organizationKeys: { create: async () => {}, store: { read: async () => KEY_CLASSES } },
  wallet: {
    unlockNew: async (tenant: string) => { unlocked.push(tenant) },
    balance: async () => ({ availableMicros: 12_500_000 }),
  },
})

/** The output of a command line; `replaced` are other dependencies. */
const outputOf = (words: string, replaced: object = {}) =>
  runCommand(words, { open: openOn({ ...deps, ...replaced }) })
const newOrganization = async () => (await deps.organizations.create('Example')).id

it('commands print JSON, wherever --json is in the command line', async () => {
  const created = JSON.parse(await outputOf('--json org create --name Example'))
  expect(created).toMatchObject({ name: 'Example' })
  expect(unlocked.toSorted()).toEqual(
    ['-sample.live', '-sample.test', '.live', '.test'].map(end => `${created.id}${end}`))
  const policy = await outputOf(`policy --org ${created.id} --freshness-days 7 --json`)
  expect(JSON.parse(policy)).toMatchObject({ orgId: created.id, freshnessDays: 7 })
})

it('a result is printed as lines for people and as JSON for scripts', async () => {
  const open = async () => ({ id: 'a', list: [1], none: [], more: { b: 2 } }) as never
  expect(await runCommand('org list', { open }))
    .toBe('id: a\nlist:\n  1\nnone: none\nmore: {\n  "b": 2\n}')
  expect(await runCommand('org list --json', { open }))
    .toBe('{"id":"a","list":[1],"none":[],"more":{"b":2}}')
})

it('organizations are listed as a table, erased ones too', async () => {
  const org = await newOrganization()
  const { id: erased } = await deps.organizations.create('Gone')
  await deps.organizations.markErased(erased)
  const lines = (await outputOf('org list')).split('\n').map(line => line.split(/ {2,}/))
  const time = expect.stringMatching(/^20.+Z$/)
  expect(lines[1]).toEqual(['id', 'createdAt', 'availableUsd', 'erasedAt', 'name'])
  expect(lines).toContainEqual([org, time, '12.500000', '-', 'Example'])
  expect(lines).toContainEqual([erased, time, '12.500000', time, 'Gone'])
})

it.each([
  ['while a process lacks the root key of its keys',
    { create: () => Promise.reject(new UsageError('ingest.a lacks that key')) }, 'ingest.a', 0],
  ['without an answer when Redis has lost its new keys',
    { create: async () => {}, store: { read: async () => [] } },
    /^Redis lost the keys of organization org_\w+ meanwhile/, 1],
])('an organization is not created %s', async (_, organizationKeys, message, created) => {
  const before = (await deps.organizations.list()).length
  await expect(outputOf('org create --name Example', { organizationKeys })).rejects.toThrow(message)
  expect(await deps.organizations.list()).toHaveLength(before + created)
})

it('the policy of an organization has whole numbers in their ranges, or the default', async () => {
  const org = await newOrganization()
  expect(await outputOf(`policy --org ${org} --weight 3 --gets 50`)).toBe(`orgId: ${org}
freshnessDays: 90\nweight: 3\nactiveJobs: default\npostBurst: default
postSustained: default\ngets: 50\nlowBalanceMicros: default\nkeyDays: default`)
  expect(await outputOf(`policy --org ${org} --gets default`)).toContain('gets: default')
  for (const days of ['', '-1', '1e1', '91', 'x']) {
    await expect(outputOf(`policy --org ${org} --freshness-days=${days}`)).rejects
      .toThrow(RangeError)
  }
})

it('commands use the stack in the folder of --data', async () => {
  const folder = newFolder('workspace-')
  writeFileSync(`${folder}/stack.json`, JSON.stringify({ clickhouseUrl: 'http://there:1' }))
  const environments: Environment[] = []
  await runCommand(['--data', folder, 'org', 'list'], {
    open: async env => {
      environments.push(env)
      return {} as never
    },
  })
  expect(environments).toMatchObject([{ CLICKHOUSE_URL: 'http://there:1' }])
})

/** Erases at a terminal with this input; the answer is what was asked and the error. */
async function eraseAt (typed: string, isTTY = true) {
  const input = Object.assign(new PassThrough(), { isTTY })
  const errors = Object.assign(new PassThrough(), { isTTY })
  input.end(typed)
  const error: unknown = await runCommand('org erase --org org_1', { input, errors })
    .catch((reason: unknown) => reason)
  errors.end()
  return [error, await text(errors)]
}

it('org erase asks for the id of the organization, at a terminal', async () => {
  // With it, the command goes on to its settings.
  expect(await eraseAt('org_1\n')).toEqual([expect.any(ConfigError), expect.stringContaining(
    'all data of org_1 unreadable for ever. Type its id to confirm: ')])
  for (const typed of ['org_2\n', 'yes\n', '\n', '']) {
    expect((await eraseAt(typed))[0])
      .toMatchObject({ message: 'the answer is not org_1: nothing was erased.' })
  }
  expect(await eraseAt('org_1\n', false)).toEqual([
    expect.objectContaining({ message: expect.stringContaining('pass --yes') }), '',
  ])
})

it.each([
  'org erase --org org_1 --yes', 'audit', 'access-log --org org_1', 'keys list', 'keys rewrap',
  'jobs', 'cells', 'pause verify', 'lag', 'dead list', 'backup',
  'journal restore',
])('"%s" names the settings that it lacks before it connects', async words => {
  const run = runCommand(words)
  await expect(run).rejects.toThrow(ConfigError)
  await expect(run).rejects.toThrow(/\w is missing/)
})

it.each<readonly [string, string]>([
  ['lag --stage verfy', 'Stage verfy does not exist. The stages are: ingest, feed,'],
  ...['', '0', '-1', 'x', 'Infinity'].map(number =>
    [`jobs --stalled=${number}`, `--stalled ${number} is not a number above 0`] as const),
  ...['', '1.5', '-1', '1e3'].map(number =>
    [`jobs --limit=${number}`, `--limit ${number} is not an integer from 0`] as const),
  ['drain --timeout x', '--timeout x is not a number above 0'],
  ...['', '-1', 'x', 'Infinity'].flatMap(minutes => [
    'org erase --org org_1 --yes', 'job erase --org org_1 --job job_1',
  ].map(words => [`${words} --wait-minutes=${minutes}`,
    `--wait-minutes must be a number of at least 0, not "${minutes}".`] as const)),
  ['job erase --org org_1 --job job_1 --mode x', '--mode must be one of live, test, not "x".'],
  ...['sign-in', 'sign-in --org org_1 --operator'].map(words =>
    [words, 'Pass either --org <id> or --operator.'] as const),
  ['access-log --org org_1 --since x', '--since must be a time like 2026'],
  ['access-log --org org_1 --format xml', '--format must be csv or ndjson, not "xml"'],
])('"%s" is refused before it connects: %s', async (words, message) => {
  const run = runCommand(words)
  await expect(run).rejects.toThrow(UsageError)
  await expect(run).rejects.toThrow(message)
})

it('every command has a description', () => {
  const commands = createAdminProgram().commands.flatMap(command => [command, ...command.commands])
  expect(commands.filter(command => command.description() === '')).toEqual([])
})

it('the help of each command has the global options and examples that it accepts', () => {
  const program = createAdminProgram({ print: () => {} })
  for (const command of leavesOf(program)) {
    const { help, examples } = helpOf(command)
    expect(help).toContain('--json ')
    expect(help).toContain('--data <folder>')
    expect([command.words, examples.length > 0]).toEqual([command.words, true])
    for (const words of examples) {
      const options: readonly string[] = words.match(/--[\w-]+/g) ?? []
      const accepted = [...command.options, ...program.options]
      expect(options.filter(name => !accepted.some(({ long }) => long === name))).toEqual([])
      expect(accepted.filter(({ mandatory }) => mandatory).map(({ long }) => long)
        .filter(name => !options.includes(name ?? ''))).toEqual([])
    }
  }
})
