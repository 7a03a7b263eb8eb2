import { expect, it } from 'vitest'
import { UsageError } from '../../../services/runtime/platform/run-command.ts'
import type { AdminCommand } from '../../../services/admin/command-line.ts'
import { createAdminProgram } from '../../../services/admin/program.ts'
import { helpOf, leavesOf, openOn, runCommand } from '../../support/admin.ts'
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

/** They read or write other stores than accounts. */
const WITH_STORES = ['org erase', 'access-log', 'job erase', 'sign-in']
const commands = leavesOf(createAdminProgram()).filter(({ words, options }) =>
  !WITH_STORES.includes(words) && options.some(({ long }) => long === '--org'))

/** Those that only read, but the first call of one creates a key pair. */
const isAccepted = ({ words, recording }: AdminCommand) =>
  // Without it, jobs cannot end whose organization is being erased.
  words === 'thaw' || (recording === null && words !== 'webhook-key show')
const exampleOf = (command: AdminCommand) => `${command.words} ${helpOf(command).examples[0]}`
const ACCEPTED = [...commands.filter(isAccepted).map(exampleOf), 'policy --org org_1']
const REFUSED = commands.filter(command => !isAccepted(command)).map(exampleOf)

/** The output of a command line for an erased organization, and its id. */
async function runOnErased (line: string) {
  const { id } = await deps.organizations.create('Example')
  await deps.organizations.markErased(id)
  const words = line.replace('org_1', id).match(/"[^"]+"|\S+/g) ?? []
  return { id, output: runCommand(words, { open: openOn(deps) }) }
}

it.each(REFUSED)('"%s" refuses an erased organization in one sentence', async line => {
  const { id, output } = await runOnErased(line)
  const error: unknown = await output.catch((reason: unknown) => reason)
  expect(error).toBeInstanceOf(UsageError)
  expect(String(error)).toContain(`organization ${id} was erased on 20`)
})

it.each(ACCEPTED)('"%s" works on what is left of an erased organization', async line => {
  const { output } = await runOnErased(line)
  expect(await output).not.toBe('')
})
