import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import type { Command } from 'commander'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { recordCommands, wordsOf } from '../../../services/access-log/commands.ts'
import type { AccessEvent } from '../../../services/access-log/entry.ts'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { ConfigError } from '../../../services/platform/config.ts'
import { KEY_CLASSES } from '../../../services/topology.ts'
import { workspaceActions } from '../../../services/admin/workspace-command-actions.ts'
import type { withWorkspace, WorkspaceDeps } from '../../../services/admin/deps.ts'
import { addExamples } from '../../../services/admin/examples.ts'
import { printResult } from '../../../services/admin/options.ts'
import { createWorkspaceProgram } from '../../../services/admin/workspace-program.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const { redis } = memoryRedis()
const unlocked: string[] = []
let isShipped = true
const deps = {
  organizations: createOrganizations(redis),
  apiKeys: createApiKeys(redis),
  organizationKeys: { create: async () => {}, store: { read: async () => KEY_CLASSES } },
  accounts: { areShipped: async () => isShipped },
  wallet: {
    unlockNew: async (tenant: string) => { unlocked.push(tenant) },
    balance: async () => ({ availableMicros: 12_500_000 }),
  },
}
const environments: Readonly<Record<string, string | undefined>>[] = []

const open: typeof withWorkspace = async (env, work) => {
  environments.push(env)
  return await work(deps as unknown as WorkspaceDeps)
}

let folder: string
beforeEach(() => { folder = mkdtempSync(`${tmpdir()}/workspace-`) })
afterEach(() => rmSync(folder, { recursive: true }))

/** The output of a command line. */
async function outputOf (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  await createWorkspaceProgram(line => { lines.push(line) }, open)
    .parseAsync(['--data', folder, ...words], { from: 'user' })
  return lines.join('\n')
}

it('workspace prints JSON, wherever --json is in the command line', async () => {
  const created = JSON.parse(await outputOf('--json', 'org', 'create', '--name', 'Example'))
  expect(created).toMatchObject({ name: 'Example' })
  expect(unlocked.toSorted()).toEqual([`${created.id}.live`, `${created.id}.test`])
  const policy = await outputOf('policy', '--org', created.id, '--freshness-days', '7', '--json')
  expect(JSON.parse(policy)).toMatchObject({ orgId: created.id, freshnessDays: 7 })
})

it('workspace records the creation of an organization in its own log', async () => {
  const entries: AccessEvent[] = []
  const lines: string[] = []
  const program = createWorkspaceProgram(line => { lines.push(line) }, open)
  const append = async (_env: object, event: AccessEvent) => { entries.push(event) }
  await recordCommands(program, workspaceActions(), append)
    .parseAsync(['--json', 'org', 'create', '--name', 'Example'], { from: 'user' })
  const { id: organization } = JSON.parse(lines.join())
  expect(entries).toMatchObject(['attempted', 'done'].map(outcome =>
    ({ organization, action: 'organization.created', outcome })))
})

it('workspace warns about a change that is only in Redis, but not when it only reads', async () => {
  const { id } = await deps.organizations.create('Example')
  isShipped = false
  expect(await outputOf('key', 'create', '--org', id))
    .toContain('warning: The change is stored in Redis but not yet in Kafka')
  expect(await outputOf('key', 'list', '--org', id)).not.toContain('warning')
  isShipped = true
})

it('workspace prints names and values, and lists as tables', async () => {
  const { id } = await deps.organizations.create('Example')
  expect(await outputOf('policy', '--org', id, '--weight', '3', '--gets', '50')).toBe(`orgId: ${id}
freshnessDays: 90\nweight: 3\nactiveJobs: default\npostBurst: default
postSustained: default\ngets: 50\nlowBalanceMicros: default\nkeyDays: default`)
  expect(await outputOf('policy', '--org', id, '--gets', 'default')).toContain('gets: default')
  expect(await outputOf('key', 'list', '--org', id)).toBe('keys: none')
  const key = await outputOf('key', 'create', '--org', id, '--mode', 'test')
  expect(key.split('\n').map(line => line.split(':')[0]))
    .toEqual(['id', 'secret', 'mode', 'scopes', 'networks', 'expiresAt', 'note'])
  expect(key).toContain('mode: test\nscopes: jobs:write,jobs:read\n')
  const [title, head, row, ...more] = (await outputOf('key', 'list', '--org', id)).split('\n')
  expect([title, head?.split(/ {2,}/), row?.split(/ {2,}/), more]).toEqual([
    'keys:', ['id', 'mode', 'scopes', 'createdBy', 'last4', 'createdAt'],
    [expect.stringMatching(/^key_/), 'test', 'jobs:write,jobs:read', 'operator',
      expect.any(String), expect.stringMatching(/Z$/)], [],
  ])
})

it('key roll keeps the old key valid for a day by default', async () => {
  const { id: org } = await deps.organizations.create('Example')
  const { id } = await deps.apiKeys.create({ orgId: org, mode: 'live', scopes: ['jobs:read'] })
  const before = Date.now()
  await outputOf('key', 'roll', '--org', org, '--key', id)
  const [old] = await deps.apiKeys.list(org)
  const graceMs = (old?.expiresAtMs ?? 0) - before
  expect(Math.floor(graceMs / 3_600_000)).toBe(24)
})

it('workspace uses the stack in the folder of --data', async () => {
  writeFileSync(`${folder}/stack.json`, JSON.stringify({ clickhouseUrl: 'http://there:1' }))
  const { id } = await deps.organizations.create('Example')
  await outputOf('policy', '--org', id)
  expect(environments.at(-1)?.CLICKHOUSE_URL).toBe('http://there:1')
})

it('workspace lists organizations as a table, or as JSON', async () => {
  const { id } = await deps.organizations.create('Listed')
  const { id: erased } = await deps.organizations.create('Gone')
  await deps.organizations.markErased(erased)
  const [title, head, ...lines] = (await outputOf('org', 'list')).split('\n')
  expect(title).toBe('organizations:')
  expect(head).toMatch(/^id +createdAt +availableUsd +erasedAt +name$/)
  expect(lines.find(line => line.startsWith(id)))
    .toMatch(/^\S+ {2}20\S+Z {2}12\.500000 +- +Listed$/)
  const { organizations } = JSON.parse(await outputOf('org', 'list', '--json'))
  expect(organizations.find((one: { id: string }) => one.id === erased)).toEqual({
    id: erased,
    name: 'Gone',
    createdAt: expect.stringMatching(/^20.+Z$/),
    availableUsd: '12.500000',
    erasedAt: expect.stringMatching(/^20.+Z$/),
  })
})

it('org erase asks for a confirmation, which needs a terminal', async () => {
  await expect(outputOf('org', 'erase', '--org', 'org_1')).rejects.toThrow('pass --yes')
  // With it, the command goes on to its settings.
  await expect(outputOf('org', 'erase', '--org', 'org_1', '--yes')).rejects.toThrow(ConfigError)
})

it('workspace has a command for every task, each with a description', () => {
  const commands = createWorkspaceProgram().commands
    .flatMap(command => [command, ...command.commands])
  expect(commands.filter(command => command.description() === '')).toEqual([])
  expect(commands.map(command => command.name())).toEqual([
    'org', 'create', 'list', 'erase', 'person', 'add', 'list', 'change', 'sign-out', 'remove',
    'key', 'create', 'list', 'revoke', 'roll', 'topup', 'adjust', 'thaw',
    'balance', 'policy',
    'webhook-secret', 'show', 'rotate',
    'webhook-key', 'show', 'rotate',
    'webhook-endpoint', 'create', 'list', 'disable', 'enable', 'rotate', 'delete',
    'partner', 'create', 'list', 'rotate',
    'revoke', 'audit', 'access-log',
    'job', 'erase', 'keys', 'list', 'rewrap', 'rotate', 'sign-in',
  ])
})

it('a result is printed as lines for people and as JSON for scripts', () => {
  const lines: string[] = []
  const print = (line: string) => { lines.push(line) }
  printResult(print, { id: 'a', list: [1] }, false)
  printResult(print, { id: 'a' }, true)
  expect(lines).toEqual(['id: a', 'list:\n  1', '{"id":"a"}'])
})

it('the help of each command has the global options and an example that it accepts', () => {
  const program = createWorkspaceProgram(() => {})
  addExamples(program)
  const leaves = (command: Command): readonly Command[] =>
    command.commands.length === 0 ? [command] : command.commands.flatMap(leaves)
  for (const command of leaves(program)) {
    let help = ''
    command.configureOutput({ writeOut: text => { help += text } }).outputHelp()
    expect(help).toContain('--json ')
    expect(help).toContain('--data <folder>')
    const [, words = 'none', given = ''] =
      new RegExp(`npm run workspace -- (${wordsOf(command)})(.*)$`, 'm').exec(help) ?? []
    expect(words).toBe(wordsOf(command))
    const options: readonly string[] = given.match(/--[\w-]+/g) ?? []
    const known = [...command.options, ...program.options]
    expect(options.filter(name => !known.some(({ long }) => long === name))).toEqual([])
    expect(known.filter(({ mandatory }) => mandatory).map(({ long }) => long)
      .filter(name => !options.includes(name ?? ''))).toEqual([])
  }
})
