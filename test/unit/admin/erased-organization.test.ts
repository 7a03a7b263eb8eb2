import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { leavesOf, openOn, runCommand } from '../../support/admin.ts'
import { openWorkspace } from './workspace.ts'

const { deps } = await openWorkspace({
  webhookSecrets: {},
  webhookSigningKeys: {},
  endpoints: { list: async () => [] },
  gates: {
    thaw: async () => {},
    read: async () => ({ isUnlocked: true, frozen: '' }),
    reconstructed: async () => [],
  },
  wallet: { balance: async () => ({ availableMicros: 12_500_000 }) },
})

/** The output of a command line for an erased organization, and its id. */
async function runOnErased (line: string) {
  const { id } = await deps.organizations.create('Example')
  await deps.organizations.markErased(id)
  return { id, output: runCommand(`${line} --org ${id}`, { open: openOn(deps) }) }
}

/** Commands on one organization, by which those of them that only read are accepted. */
const ON_ORGANIZATION = `
key create
key list
key revoke --key key_1
key roll --key key_1
person add --email ann@example.com --role owner
person list
person change --email ann@example.com --role owner
person sign-out --email ann@example.com
person remove --email ann@example.com
topup --usd 1
adjust --micros 1 --reason why
thaw
balance
policy
policy --freshness-days 1
webhook-secret show
webhook-secret rotate
webhook-key show
webhook-key rotate
webhook-endpoint create --url https://example.com
webhook-endpoint list
webhook-endpoint disable --endpoint we_1
webhook-endpoint enable --endpoint we_1
webhook-endpoint rotate --endpoint we_1
webhook-endpoint delete --endpoint we_1
partner create --name acme
partner list
keys rotate`.trim().split('\n')
/** They read or write other stores than accounts. */
const WITH_STORES = ['org erase', 'access-log', 'job erase', 'sign-in']
/** Without it, jobs cannot end whose organization is being erased. */
const ALSO_ACCEPTED = ['thaw']
/** Its first call creates the key pair. */
const ALSO_REFUSED = ['webhook-key show']

const commandIn = (line: string) => line.split(' --')[0] ?? ''
const commands = leavesOf(createAdminProgram())
const onlyReads = (line: string) =>
  commands.some(({ words, recording }) => words === commandIn(line) && recording === null)
const isAccepted = (line: string) => ALSO_ACCEPTED.includes(line) || line === 'policy' ||
  (onlyReads(line) && !ALSO_REFUSED.includes(line))

const ACCEPTED = ON_ORGANIZATION.filter(isAccepted)

it.each(ON_ORGANIZATION.filter(line => !isAccepted(line)))(
  '"%s" refuses an erased organization in one sentence', async line => {
    const { id, output } = await runOnErased(line)
    const error: unknown = await output.catch((reason: unknown) => reason)
    expect(error).toBeInstanceOf(UsageError)
    expect(String(error)).toContain(`organization ${id} was erased on 20`)
  })

it.each(ACCEPTED)('"%s" works on what is left of an erased organization', async line => {
  const { output } = await runOnErased(line)
  expect(await output).not.toBe('')
})

it('every command on one organization is checked with an erased one, and documented', () => {
  const found = commands.filter(({ options }) => options.some(({ long }) => long === '--org'))
    .map(({ words }) => words)
  expect(new Set([...ON_ORGANIZATION.map(commandIn), ...WITH_STORES])).toEqual(new Set(found))
  const guide = readFileSync('deploy/docs/keys.md', 'utf8')
  const sentence = /Commands that only read still work:[^.]+\./.exec(guide)?.[0]
  expect([...ACCEPTED, 'access-log'].filter(line => !sentence?.includes(`\`${line}\``))).toEqual([])
})
