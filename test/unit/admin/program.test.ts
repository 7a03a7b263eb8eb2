import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { recordCommands } from '../../../services/admin/admin-command.ts'
import type { AccessEvent } from '../../../services/accounts/access-log/entry.ts'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import { ConfigError } from '../../../services/runtime/platform/config.ts'
import { KEY_CLASSES } from '../../../services/topology.ts'
import type { withWorkspace, WorkspaceDeps } from '../../../services/admin/deps.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { leavesOf } from '../../support/admin.ts'
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
  await createAdminProgram({ print: line => { lines.push(line) }, open })
    .parseAsync(['--data', folder, ...words], { from: 'user' })
  return lines.join('\n')
}

it('commands print JSON, wherever --json is in the command line', async () => {
  const created = JSON.parse(await outputOf('--json', 'org', 'create', '--name', 'Example'))
  expect(created).toMatchObject({ name: 'Example' })
  expect(unlocked.toSorted()).toEqual([`${created.id}.live`, `${created.id}.test`])
  const policy = await outputOf('policy', '--org', created.id, '--freshness-days', '7', '--json')
  expect(JSON.parse(policy)).toMatchObject({ orgId: created.id, freshnessDays: 7 })
})

it('org create is recorded in the log of the new organization', async () => {
  const entries: AccessEvent[] = []
  const lines: string[] = []
  const program = createAdminProgram({ print: line => { lines.push(line) }, open })
  const append = async (_env: object, event: AccessEvent) => { entries.push(event) }
  await recordCommands(program, append)
    .parseAsync(['--json', 'org', 'create', '--name', 'Example'], { from: 'user' })
  const { id: organization } = JSON.parse(lines.join())
  expect(entries).toMatchObject(['attempted', 'done'].map(outcome =>
    ({ organization, action: 'organization.created', outcome })))
})

it('commands warn about a change that is only in Redis, but not when they only read', async () => {
  const { id } = await deps.organizations.create('Example')
  isShipped = false
  expect(await outputOf('key', 'create', '--org', id))
    .toContain('warning: The change is stored in Redis but not yet in Kafka')
  expect(await outputOf('key', 'list', '--org', id)).not.toContain('warning')
  isShipped = true
})

it('commands print names and values, and lists as tables', async () => {
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

it('commands use the stack in the folder of --data', async () => {
  writeFileSync(`${folder}/stack.json`, JSON.stringify({ clickhouseUrl: 'http://there:1' }))
  const { id } = await deps.organizations.create('Example')
  await outputOf('policy', '--org', id)
  expect(environments.at(-1)?.CLICKHOUSE_URL).toBe('http://there:1')
})

it('org list prints a table, or JSON', async () => {
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

it('the program has these commands, each with a description', () => {
  const commands = createAdminProgram().commands.flatMap(command => [command, ...command.commands])
  expect(commands.filter(command => command.description() === '')).toEqual([])
  expect(leavesOf(createAdminProgram()).map(({ words }) => words)).toEqual([
    'org create', 'org list', 'org erase',
    'person add', 'person list', 'person change', 'person sign-out', 'person remove',
    'key create', 'key list', 'key revoke', 'key roll',
    'topup', 'adjust', 'thaw', 'balance', 'policy',
    'webhook-secret show', 'webhook-secret rotate', 'webhook-key show', 'webhook-key rotate',
    'webhook-endpoint create', 'webhook-endpoint list', 'webhook-endpoint disable',
    'webhook-endpoint enable', 'webhook-endpoint rotate', 'webhook-endpoint delete',
    'partner create', 'partner list', 'partner rotate', 'partner revoke',
    'job erase', 'sign-in', 'audit', 'access-log', 'keys list', 'keys rewrap', 'keys rotate',
    'lag', 'jobs', 'pause', 'resume', 'cells', 'replay', 'drain',
    'dead list', 'dead show', 'dead replay', 'dead discard', 'journal restore',
  ])
})

it('a result is printed as lines for people and as JSON for scripts', async () => {
  const lines: string[] = []
  const open = (async () => ({ id: 'a', list: [1] })) as never
  for (const words of [[], ['--json']]) {
    await createAdminProgram({ print: line => { lines.push(line) }, open })
      .parseAsync(['--data', '/none', 'org', 'list', ...words], { from: 'user' })
  }
  expect(lines).toEqual(['id: a\nlist:\n  1', '{"id":"a","list":[1]}'])
})

it('the help of each command has the global options and examples that it accepts', () => {
  const program = createAdminProgram({ print: () => {} })
  for (const command of leavesOf(program)) {
    let help = ''
    command.configureOutput({ writeOut: text => { help += text } }).outputHelp()
    expect(help).toContain('--json ')
    expect(help).toContain('--data <folder>')
    const examples = [...help.matchAll(
      new RegExp(`^  npm run admin -- ${command.words}(?: (\\S.*?))?(?: {2}.*)?$`, 'gm'))]
    expect([command.words, examples.length > 0]).toEqual([command.words, true])
    for (const [, words = ''] of examples) {
      const options: readonly string[] = words.match(/--[\w-]+/g) ?? []
      const accepted = [...command.options, ...program.options]
      expect(options.filter(name => !accepted.some(({ long }) => long === name))).toEqual([])
      expect(accepted.filter(({ mandatory }) => mandatory).map(({ long }) => long)
        .filter(name => !options.includes(name ?? ''))).toEqual([])
    }
  }
})

it('options that are wrong are rejected before a command connects', async () => {
  await expect(outputOf('lag', '--once', '--stage', 'verfy')).rejects
    .toThrow('Stage verfy does not exist')
  await expect(outputOf('jobs', '--stalled', 'x')).rejects
    .toThrow('--stalled x is not a number above 0')
  await expect(outputOf('jobs', '--limit', 'x')).rejects.toThrow('--limit x is not an integer')
  await expect(outputOf('drain', '--timeout', 'x')).rejects
    .toThrow('--timeout x is not a number above 0')
  await expect(outputOf('replay', '--stage', 'deliver', '--from', '3'))
    .rejects.toThrow('--from 3 is an offset, which needs one partition')
})
