import type { Command } from 'commander'
import { expect, it } from 'vitest'
import {
  type CommandActions, recordCommands, wordsOf,
} from '../../../services/access-log/commands.ts'
import type { AccessEvent } from '../../../services/access-log/entry.ts'
import { OPS_ACTIONS } from '../../../services/admin/command-actions.ts'
import { createOpsProgram } from '../../../services/admin/program.ts'
import { workspaceActions } from '../../../services/admin/workspace-command-actions.ts'
import { createWorkspaceProgram } from '../../../services/admin/workspace-program.ts'

const findPerson = async (_env: object, _orgId: string, email: string) =>
  email === 'ann@example.com' ? { id: 'per_1', role: 'finance' } as never : undefined

const findPartner = async (_env: object, name: string) =>
  name === 'acme' ? { orgId: 'org_1' } : undefined

const WORKSPACE_ACTIONS = workspaceActions(findPerson, findPartner)

type Line = readonly [command: string, target: string, details: object, result?: object]

/** What the log says on the result of each command: its target, and its details beside the mode. */
const WORKSPACE: readonly Line[] = [
  ['org create --name hidden', 'org_2', {}, { id: 'org_2' }],
  ['org erase --org org_1 --yes', '', {}],
  ['person add --org org_1 --email bob@example.com --role owner', 'per_2', { role: 'owner' },
    { id: 'per_2', email: 'bob@example.com' }],
  ['person change --org org_1 --email ann@example.com --role owner', 'per_1',
    { role: 'owner', previousRole: 'finance' }, { id: 'per_1', email: 'ann@example.com' }],
  ['person sign-out --org org_1 --email ann@example.com', 'per_1', { previousRole: 'finance' }],
  ['person remove --org org_1 --email ann@example.com', 'per_1', { previousRole: 'finance' }],
  ['key create --org org_1 --name hidden --scopes jobs:read --networks 192.0.2.0/24', 'key_1',
    { scopes: 'jobs:read', networks: '192.0.2.0/24' }, { id: 'key_1', secret: 's' }],
  ['key revoke --org org_1 --key key_1', 'key_1', {}],
  ['key roll --org org_1 --key key_1', 'key_1', { graceHours: '24', newKey: 'key_2' },
    { id: 'key_2', secret: 's', replaces: 'key_1' }],
  ['topup --org org_1 --usd 5 --id p_1', 'p_1', { usd: '5', id: 'p_1', posting: 'repeated' },
    { id: 'p_1', posting: 'repeated' }],
  ['adjust --org org_1 --micros -5 --reason R', 'adjust:1', { micros: '-5', reason: 'R' },
    { id: 'adjust:1' }],
  ['thaw --org org_1 --trust journal', '', { trust: 'journal', state: 'frozen' },
    { state: 'frozen' }],
  ['policy --org org_1 --weight 2', '', { weight: '2' }],
  ['webhook-secret show --org org_1', '', {}, { webhookSecret: 's' }],
  ['webhook-secret rotate --org org_1', '', {}, { webhookSecret: 's' }],
  ['webhook-key rotate --org org_1', '', {}],
  ['webhook-endpoint create --org org_1 --url https://secret.example/ --events *', 'we_1',
    { events: '*' }, { id: 'we_1', url: 'https://secret.example/', secret: 's' }],
  ['webhook-endpoint disable --org org_1 --endpoint we_1', 'we_1', { enabled: 'false' }],
  ['webhook-endpoint enable --org org_1 --endpoint we_1', 'we_1', { enabled: 'true' }],
  ['webhook-endpoint rotate --org org_1 --endpoint we_1', 'we_1', {}, { id: 'we_1', secret: 's' }],
  ['webhook-endpoint delete --org org_1 --endpoint we_1', 'we_1', {}],
  ['partner create --org org_1 --name acme --prices {"whatsapp":1} --trial', 'acme',
    { partitions: '1', prices: '{"whatsapp":1}', trial: 'true' }],
  ['partner rotate --name acme', 'acme', { graceHours: '24' }],
  ['partner revoke --name acme', 'acme', {}],
  ['access-log --org org_1 --since 2026-01-01', '', { since: '2026-01-01' }],
  ['job erase --org org_1 --job job_1,job_2', 'job_1,job_2', {}],
  ['keys rewrap', '', {}],
  ['keys rotate --org org_1', '', { version: '2' }, { version: 2 }],
  ['sign-in --org org_1', '', {}],
]

const OPS: readonly Line[] = [
  ['pause verify --reason R --by ann', 'verify', { reason: 'R', by: 'ann' }],
  ['resume verify', 'verify', {}],
  ['replay --stage verify --topic t --partition 1 --from 7 --yes', 'verify',
    { topic: 't', partition: '1', from: '7' }],
  ['dead show verify 0:12 --open', 'verify 0:12', {}],
  ['dead replay verify --job job_1', 'verify', { limit: '50', job: 'job_1' }],
  ['dead discard verify 0:12 --reason R', 'verify 0:12', { reason: 'R', limit: '50' }],
  ['journal restore', '', {}],
]

/** Commands that need more than accounts end at once here, before they connect to anything. */
function withoutWork (program: Command): Command {
  const isTask = /^(org create|person|key |topup|adjust|thaw|policy|webhook|partner|keys rotate)/
  if (!isTask.test(wordsOf(program))) program.action(() => {})
  program.commands.forEach(withoutWork)
  return program
}

const entriesOf = async (words: string, program: Command, isOps: boolean) => {
  const entries: AccessEvent[] = []
  await recordCommands(program, isOps ? OPS_ACTIONS : WORKSPACE_ACTIONS, async (_env, event) => {
    entries.push(event)
  }).parseAsync(words.split(' '), { from: 'user' })
  return entries
}

const cases = (lines: readonly Line[]) => lines.map(line => ({ name: line[0], line }))

it.each(cases(WORKSPACE))('$name names its target and its details', async ({ line }) => {
  const [words, target, details, result = {}] = line
  const program = withoutWork(createWorkspaceProgram(() => {}, async () => result as never))
  const [attempt, end] = await entriesOf(words, program, false)
  const { mode: _mode, ...rest } = end?.details ?? {}
  expect([attempt?.outcome, end?.outcome, end?.target, rest])
    .toEqual(['attempted', 'done', target, details])
  expect(JSON.stringify([attempt, end])).not.toMatch(/hidden|@example|secret\.example|"s"/)
})

it.each(cases(OPS))('ops $name names its target and its details', async ({ line }) => {
  const [words, target, details] = line
  const [, end] = await entriesOf(words, withoutWork(createOpsProgram(() => {})), true)
  expect([end?.outcome, end?.target, end?.details]).toEqual(['done', target, details])
})

it.each([
  ['acme', 'org_1'], ['unknown', 'installation'],
])('a command on the partner %s is recorded under %s', async (name, organization) => {
  for (const command of ['rotate', 'revoke']) {
    const program = withoutWork(createWorkspaceProgram(() => {}, async () => ({}) as never))
    const entries = await entriesOf(`partner ${command} --name ${name}`, program, false)
    expect(entries.map(entry => entry.organization)).toEqual([organization, organization])
  }
})

it('every command with an action is among these', () => {
  const missing = (lines: readonly Line[], actions: CommandActions) =>
    Object.keys(actions).filter(name => actions[name] !== null &&
      !lines.some(([words]) => words === name || words.startsWith(`${name} `)))
  expect([missing(WORKSPACE, WORKSPACE_ACTIONS), missing(OPS, OPS_ACTIONS)]).toEqual([[], []])
})
