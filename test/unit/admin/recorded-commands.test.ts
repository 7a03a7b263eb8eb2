import { expect, it } from 'vitest'
import type { AccessEvent } from '../../../services/accounts/access-log/access-log.ts'
import { type AdminCommand, recordCommands } from '../../../services/admin/command-line.ts'
import type { withWorkspace, WorkspaceDeps } from '../../../services/admin/deps.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { leavesOf } from '../../support/admin.ts'

/** What the log looks up: one person and one partner. */
const lookups = {
  people: { list: async () => [{ id: 'per_1', email: 'ann@example.com', role: 'finance' }] },
  partners: { find: async (name: string) => name === 'acme' ? { orgId: 'org_1' } : undefined },
} as unknown as WorkspaceDeps

/** Runs what needs no more than these, and answers every other task with the result. */
const openWith = (result: object): typeof withWorkspace => async (_env, work) => {
  try {
    return await work(lookups)
  } catch {
    return result as never
  }
}

type Line = readonly [command: string, target: string, details: object, result?: object]

/** What the log says on the result of each command: its target, and its details beside the mode. */
const LINES: readonly Line[] = [
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
  ['partner types --name acme --form text', 'acme', { form: 'text' }],
  ['partner revoke --name acme', 'acme', {}],
  ['access-log --org org_1 --since 2026-01-01', '', { since: '2026-01-01' }],
  ['job erase --org org_1 --job job_1,job_2', 'job_1,job_2', {}],
  ['keys rewrap', '', {}],
  ['keys rotate --org org_1', '', { version: '2' }, { version: 2 }],
  ['sign-in --org org_1', '', {}],
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
function withoutWork (program: AdminCommand): AdminCommand {
  const isTask = /^(org create|person|key |topup|adjust|thaw|policy|webhook|partner|keys rotate)/
  for (const command of leavesOf(program)) {
    if (!isTask.test(command.words)) command.action(() => {})
  }
  return program
}

async function entriesOf (words: string, result: object): Promise<readonly AccessEvent[]> {
  const entries: AccessEvent[] = []
  const program = withoutWork(createAdminProgram({ print: () => {}, open: openWith(result) }))
  await recordCommands(program, async (_env, event) => { entries.push(event) })
    .parseAsync(words.split(' '), { from: 'user' })
  return entries
}

it.each(LINES.map(line => ({ name: line[0], line })))(
  '$name names its target and its details', async ({ line }) => {
    const [words, target, details, result = {}] = line
    const [attempt, end] = await entriesOf(words, result)
    const { mode: _mode, ...rest } = end?.details ?? {}
    expect([attempt?.outcome, end?.outcome, end?.target, rest])
      .toEqual(['attempted', 'done', target, details])
    expect(JSON.stringify([attempt, end])).not.toMatch(/hidden|@example|secret\.example|"s"/)
  })

it.each([
  ['acme', 'org_1'], ['unknown', 'installation'],
])('a command on the partner %s is recorded under %s', async (name, organization) => {
  for (const command of ['rotate', 'revoke']) {
    const entries = await entriesOf(`partner ${command} --name ${name}`, {})
    expect(entries.map(entry => entry.organization)).toEqual([organization, organization])
  }
})

it('every command with an action is among these', () => {
  const missing = leavesOf(createAdminProgram()).filter(({ recording, words }) =>
    recording !== null && !LINES.some(([line]) => `${line} `.startsWith(`${words} `)))
  expect(missing.map(({ words }) => words), 'add a line to LINES for each of these').toEqual([])
})
