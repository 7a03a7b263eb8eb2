import { PassThrough } from 'node:stream'
import { beforeEach, expect, it, onTestFinished, vi } from 'vitest'
import { openOn, runCommand } from '../../support/admin.ts'
import { OrganizationErasedError } from '../../../services/accounts/organization-keys.ts'
import { createWallet, FrozenError } from '../../../services/money/wallet.ts'
import { CommandFailure, UsageError } from '../../../services/runtime/platform/run-command.ts'
import { unlockAll } from '../../support/redis/unlock.ts'
import { workerRedis as redis } from '../../support/redis/worker.ts'
import { openWorkspace, type Workspace } from './workspace.ts'

const balance = async () => ({ availableMicros: 12_500_000 })
let movements: unknown[]
let workspace: Workspace
beforeEach(async () => {
  movements = []
  const move = async (...movement: unknown[]) => {
    movements.push(movement)
    return { kind: 'known', seq: 1 }
  }
  workspace = await openWorkspace({
    wallet: { topUp: move, adjust: move, balance, isShipped: async () => true },
  })
})

it.each([
  ['topup', { usd: '12.50', id: 'payment 1' },
    { id: 'payment 1', amountMicros: 12_500_000, reason: 'top-up' }],
  ['topup', { usd: '1', id: 'a', reason: 'R', note: 'N' },
    { id: 'a', amountMicros: 1_000_000, reason: 'R', note: 'N' }],
  ['adjust', { micros: '-5', id: 'a', reason: ' R ' }, { id: 'a', amountMicros: -5, reason: 'R' }],
])('%s with %o moves exactly that, once', async (command, options, movement) => {
  const { org, run } = workspace
  expect(await run(command, { org, mode: 'live', ...options }))
    .toMatchObject({ posting: 'known', availableUsd: '12.500000' })
  expect(movements).toEqual([[`${org}.live`, movement]])
})

it('a movement that does not reach the journal is reported with a warning', async () => {
  vi.useFakeTimers({ toFake: ['Date'] })
  onTestFinished(() => { vi.useRealTimers() })
  const isShipped = async () => {
    vi.advanceTimersByTime(5_000)
    return false
  }
  const { org, run } = await openWorkspace({
    wallet: { topUp: async () => ({ kind: 'posted', seq: 3 }), balance, isShipped },
  })
  expect(await run('topup', { org, mode: 'live', usd: '1', id: 'a' }))
    .toMatchObject({ posting: 'posted', warning: expect.stringContaining('not yet in Kafka') })
})

it('movements that only Redis has are shown with their balance, or of all tenants', async () => {
  const wallet = createWallet(redis)
  const { deps: { outbox }, org, run } = await openWorkspace({ wallet })
  for (const mode of ['live', 'test']) {
    await unlockAll(redis, [`${org}.${mode}`])
    await wallet.topUp(`${org}.${mode}`, { id: 'a', amountMicros: 5, reason: '' })
  }
  const at = expect.stringMatching(/^20.+Z$/)
  const entry = { seq: 1, type: 'topup', job: '', amountMicros: 5, at }
  expect(await run('balance', { org, mode: 'live' }))
    .toMatchObject({ availableMicros: 5, notShipped: [{ tenant: `${org}.live`, ...entry }] })
  expect(await run('outbox', {})).toEqual({
    notShipped: ['live', 'test'].map(mode => ({ tenant: `${org}.${mode}`, ...entry })),
  })
  await outbox.remove(`${org}.live`, await outbox.pending(`${org}.live`))
  expect(await run('balance', { org, mode: 'live' }))
    .toMatchObject({ availableMicros: 5, notShipped: [] })
})

it.each([
  ['topup', {}], ['topup', { usd: '1', micros: '1' }], ['topup', { usd: '1,5' }],
  ['topup', { micros: '0' }], ['topup', { usd: '1', mode: 'prod' }],
  ['topup', { usd: '1', id: '' }], ['topup', { micros: '1000000000000000' }],
  ['adjust', { micros: '-1000000000000000', reason: 'R' }],
  ['topup', { usd: '1', org: 'org_none' }], ['adjust', { micros: '1.5', reason: 'R' }],
  ['adjust', { micros: '0', reason: 'R' }], ['adjust', { micros: '5', reason: ' ' }],
])('%s with %j moves nothing', async (command, options) => {
  const { org, run } = workspace
  await expect(run(command, { org, mode: 'live', ...options })).rejects.toThrow(/\.$/)
  expect(movements).toEqual([])
})

it('an amount in USD is refused as it was written', async () => {
  const { org, run } = workspace
  await expect(run('topup', { org, mode: 'live', usd: '0' }))
    .rejects.toThrow('invalid amount in USD: "0"')
})

it('money above the maximum of a balance is refused with what was added', async () => {
  const { org, run } = await openWorkspace({
    wallet: { topUp: async () => ({ kind: 'too_much', fundedMicros: 999_999_999_999_000 }) },
  })
  const refused = run('topup', { org, mode: 'live', usd: '1', id: 'a' })
  await expect(refused).rejects.toThrow(UsageError)
  await expect(refused).rejects.toThrow(
    `cannot add 1000000 micros to ${org}.live: its funded amount is 999999999999000, and the ` +
    'maximum is 999999999999999.')
})

it.each([
  ['topup', ['--usd', '1']], ['adjust', ['--micros', '5', '--reason', 'R']],
])('%s without an id shows the new one before money moves', async (command, options) => {
  const errors = new PassThrough({ encoding: 'utf8' })
  const move = async (_tenant: string, { id }: { readonly id: string }) => {
    expect(errors.read()).toContain(`repeat it with --id ${id}.`)
    throw new Error('the connection is gone')
  }
  const { deps, org } = workspace
  await expect(runCommand([command, '--org', org, ...options], {
    open: openOn({ ...deps, wallet: { topUp: move, adjust: move } }), errors,
  })).rejects.toThrow('the connection is gone')
})

it('a movement of a frozen balance is refused with what to do', async () => {
  const frozen = new FrozenError('the wallet of org_1.live is frozen: balances do not add up')
  const { org, run } = await openWorkspace({ wallet: { topUp: async () => { throw frozen } } })
  const refused = run('topup', { org, mode: 'live', usd: '1' })
  await expect(refused).rejects.toThrow(UsageError)
  await expect(refused).rejects.toThrow('No money was moved. See "A frozen tenant" in ' +
    'deploy/docs/recovery.md.')
})

it('a command on an organization that another one erases meanwhile says so', async () => {
  const { org, run } = await openWorkspace({
    readKeysInTopic: async () => [],
    organizationKeys: { rotate: async (id: string) => { throw new OrganizationErasedError(id) } },
  })
  const failed = run('keys rotate', { org })
  await expect(failed).rejects.toThrow(CommandFailure)
  await expect(failed).rejects.toThrow('Another command erased it meanwhile')
})
