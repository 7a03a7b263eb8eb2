import { PassThrough } from 'node:stream'
import { beforeEach, describe, expect, it } from 'vitest'
import type { Options } from '../../../services/admin/command-line.ts'
import { openOn, runCommand } from '../../support/admin.ts'
import { OrganizationErasedError } from '../../../services/accounts/organization-keys.ts'
import { FrozenError } from '../../../services/money/wallet.ts'
import { CommandFailure, UsageError } from '../../../services/runtime/platform/run-command.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

const BALANCE = {
  availableMicros: 12_500_000,
  reservedMicros: 0,
  chargedMicros: 0,
  fundedMicros: 12_500_000,
  seq: 1,
}

const balance = async () => BALANCE

let movements: unknown[]
let workspace: Workspace
beforeEach(async () => {
  movements = []
  const topUp = async (...movement: unknown[]) => {
    movements.push(movement)
    return { kind: 'known', entry: undefined }
  }
  workspace = await openWorkspace({ wallet: { topUp, balance } })
})
const topUp = (options: Options) =>
  workspace.run('topup', { org: workspace.org, mode: 'live', ...options })

it.each([
  { gate: { isUnlocked: true, frozen: '' }, thaws: [], answer: { state: 'not_frozen' } },
  { gate: { isUnlocked: true, frozen: 'why' }, thaws: [false], answer: { state: 'frozen' } },
])('thaw of a balance with $gate answers $answer', async ({ gate, thaws, answer }) => {
  const thawed: boolean[] = []
  const gates = {
    read: async () => gate,
    thaw: async (_tenant: string, trustJournal: boolean) => { thawed.push(trustJournal) },
  }
  const { org, run } = await openWorkspace({ wallet: { balance }, gates })
  expect(await run('thaw', { org, mode: 'live' })).toMatchObject(answer)
  expect(thawed).toEqual(thaws)
})

describe('a top-up', () => {
  it('adds exactly the amount in the options', async () => {
    const result = await topUp({ usd: '12.50', id: 'payment 1' })
    expect(movements).toEqual([[`${workspace.org}.live`, {
      id: 'payment 1', amountMicros: 12_500_000, reason: 'top-up',
    }]])
    expect(result).toMatchObject({ posting: 'known', availableUsd: '12.500000' })
  })

  it('has a reason for operators and a note for the customer', async () => {
    await topUp({ usd: '1', id: 'a', reason: 'R', note: 'N' })
    expect(movements).toEqual([[`${workspace.org}.live`, {
      id: 'a', amountMicros: 1_000_000, reason: 'R', note: 'N',
    }]])
  })

  it.each([
    ['topup', ['--usd', '1']], ['adjust', ['--micros', '5', '--reason', 'R']],
  ])('%s without an id shows the new one before money moves', async (command, options) => {
    const errors = new PassThrough({ encoding: 'utf8' })
    const move = async (_tenant: string, { id }: { readonly id: string }) => {
      expect(errors.read()).toContain(`repeat it with --id ${id}.`)
      throw new Error('the connection is gone')
    }
    const wallet = { topUp: move, adjust: move }
    const { deps, org } = workspace
    await expect(runCommand([command, '--org', org, ...options], {
      open: openOn({ ...deps, wallet }), errors,
    })).rejects.toThrow('the connection is gone')
  })

  it.each<Options>([
    {}, { usd: '1', micros: '1' }, { usd: '1,5' }, { micros: '0' }, { usd: '1', mode: 'prod' },
    { usd: '1', org: 'org_none' },
  ])('with the options %j changes nothing', async options => {
    await expect(topUp(options)).rejects.toThrow(/\.$/)
    expect(movements).toEqual([])
  })
})

it('a movement of a frozen balance is refused with what to do', async () => {
  const frozen = new FrozenError('the wallet of org_1.live is frozen: balances do not add up')
  const { org, run } = await openWorkspace({
    wallet: { balance, topUp: async () => { throw frozen } },
  })
  const refused = run('topup', { org, mode: 'live', usd: '1' })
  await expect(refused).rejects.toThrow(UsageError)
  await expect(refused).rejects.toThrow('is frozen: balances do not add up. No money was moved. ' +
    'See "A frozen tenant" in deploy/docs/recovery.md.')
})

it('a command on an organization that another one erases meanwhile says so', async () => {
  const { org, run } = await openWorkspace({
    readKeysInTopic: async () => [],
    organizationKeys: { rotate: async (id: string) => { throw new OrganizationErasedError(id) } },
  })
  const failed = run('keys rotate', { org })
  await expect(failed).rejects.toThrow(CommandFailure)
  await expect(failed).rejects.toThrow(`organization ${org} was erased: its keys no longer ` +
    'exist. Another command erased it meanwhile, so nothing of this one is left.')
})
