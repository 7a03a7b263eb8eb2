import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { createApiKeys } from '../../../services/accounts/api-keys.ts'
import { createOrganizations } from '../../../services/accounts/organizations.ts'
import type { withWorkspace, WorkspaceParts } from '../../../services/workspace/parts.ts'
import { createProgram } from '../../../services/workspace/program.ts'
import { memoryRedis } from '../accounts/memory-redis.ts'

const { redis } = memoryRedis()
const admitted: string[] = []
let isShipped = true
const parts = {
  organizations: createOrganizations(redis),
  apiKeys: createApiKeys(redis),
  accounts: { areShipped: async () => isShipped },
  wallet: { admit: async (tenant: string) => { admitted.push(tenant) } },
}
const environments: Readonly<Record<string, string | undefined>>[] = []

const open: typeof withWorkspace = async (env, work) => {
  environments.push(env)
  return await work(parts as unknown as WorkspaceParts)
}

let folder: string
beforeEach(() => { folder = mkdtempSync(`${tmpdir()}/workspace-`) })
afterEach(() => rmSync(folder, { recursive: true }))

/** What a command line shows. */
async function shown (...words: readonly string[]): Promise<string> {
  const lines: string[] = []
  await createProgram(line => { lines.push(line) }, open)
    .parseAsync(['--data', folder, ...words], { from: 'user' })
  return lines.join('\n')
}

it('shows JSON for scripts, wherever the switch stands', async () => {
  const made = JSON.parse(await shown('--json', 'org', 'create', '--name', 'Example'))
  expect(made).toMatchObject({ name: 'Example' })
  expect(admitted.toSorted()).toEqual([`${made.id}.live`, `${made.id}.test`])
  const policy = await shown('policy', '--org', made.id, '--freshness-days', '7', '--json')
  expect(JSON.parse(policy)).toMatchObject({ orgId: made.id, freshnessDays: 7 })
})

it('says when a change of accounts is in Redis alone, and nothing of what only reads', async () => {
  const { id } = await parts.organizations.create('Example')
  isShipped = false
  expect(await shown('key', 'create', '--org', id)).toContain('warning: The change is made and in')
  expect(await shown('key', 'list', '--org', id)).not.toContain('warning')
  isShipped = true
})

it('shows names and values for people, and lists as indented JSON', async () => {
  const { id } = await parts.organizations.create('Example')
  expect(await shown('policy', '--org', id, '--weight', '3', '--gets', '50')).toBe(`orgId: ${id}
freshnessDays: 90\nweight: 3\nactiveJobs: default\npostBurst: default
postSustained: default\ngets: 50`)
  expect(await shown('policy', '--org', id, '--gets', 'default')).toContain('gets: default')
  expect(await shown('key', 'list', '--org', id)).toBe('keys: []')
  const key = await shown('key', 'create', '--org', id, '--mode', 'test')
  expect(key.split('\n').map(line => line.split(':')[0]))
    .toEqual(['id', 'secret', 'mode', 'scopes', 'note'])
  expect(key).toContain('mode: test\nscopes: jobs:write,jobs:read\n')
})

it('rolls a key with a day of grace unless told otherwise', async () => {
  const { id: org } = await parts.organizations.create('Example')
  const { id } = await parts.apiKeys.create({ orgId: org, mode: 'live', scopes: ['jobs:read'] })
  const before = Date.now()
  await shown('key', 'roll', '--org', org, '--key', id)
  const [old] = await parts.apiKeys.list(org)
  const graceMs = (old?.expiresAtMs ?? 0) - before
  expect(Math.floor(graceMs / 3_600_000)).toBe(24)
})

it('works on the stack whose folder is given', async () => {
  writeFileSync(`${folder}/stack.json`, JSON.stringify({ clickhouseUrl: 'http://there:1' }))
  const { id } = await parts.organizations.create('Example')
  await shown('policy', '--org', id)
  expect(environments.at(-1)?.CLICKHOUSE_URL).toBe('http://there:1')
})

it('has a command for every task, each with a description', () => {
  const commands = createProgram().commands.flatMap(command => [command, ...command.commands])
  expect(commands.filter(command => command.description() === '')).toEqual([])
  expect(commands.map(command => command.name())).toEqual([
    'org', 'create', 'key', 'create', 'list', 'revoke', 'roll', 'topup', 'adjust', 'thaw',
    'balance', 'policy',
    'webhook-secret', 'show', 'rotate', 'partner', 'create', 'list', 'rotate',
    'revoke', 'audit',
    'job', 'erase', 'keys', 'list', 'rewrap', 'sign-in',
  ])
})
