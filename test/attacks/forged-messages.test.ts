import { describe, expect, it } from 'vitest'
import { hashSecret } from '../../services/accounts/api-keys.ts'
import { createWallet } from '../../services/money/wallet.ts'
import { withWorkspace } from '../../services/admin/deps.ts'
import { closeAfterAll } from '../support/close-after-all.ts'
import { runAudit } from '../support/audit.ts'
import { mixedPhones } from '../bench/jobs.ts'
import { eventually } from '../support/eventually.ts'
import { untilConsumed } from '../support/kafka/offsets.ts'
import { sumOf } from '../support/metrics.ts'
import { emptyFolder } from '../support/folder.ts'
import { RECOVERING_STAGES, startRecovering } from '../support/recovery/recovering.ts'
import { createAdversary, signedByAdversary } from './adversary.ts'

const environment = closeAfterAll(await startRecovering(RECOVERING_STAGES, {}, RECOVERING_STAGES))
const adversary = closeAfterAll(await createAdversary(environment.env))
const { codec } = adversary

const balance = () => createWallet(environment.redis).balance(environment.tenant)
const inputs = mixedPhones(40)
const request = { service: 'phone-validation', inputs, forceFresh: true } as const
const forged = (topic: string) =>
  sumOf(environment.services.list(), 'messages_forged_total', { topic })

async function runJob () {
  const { id } = await environment.client().createJob(request)
  return await environment.client().waitForEnd(id)
}

async function expectSound () {
  await environment.shipped()
  expect((await runAudit(environment.env, { only: [environment.tenant] })).breaches).toEqual([])
}

describe('an entry of the money journal that no service wrote', () => {
  it('moves no money, not even when Redis is recovered to the journal\'s end', async () => {
    await runJob()
    await environment.shipped()
    const before = await balance()
    const entries = await adversary.capture('wallet.journal')
    const last = entries.findLast(({ key }) => String(key) === environment.tenant)!
    const topUp = await adversary.changed(last, entry => ({
      ...entry,
      seq: before.seq + 1,
      entryId: 'gift',
      type: 'topup',
      job: '',
      amountMicros: 500_000_000_000,
      chargeMicros: 0,
      availableMicros: before.availableMicros + 500_000_000_000,
      fundedMicros: before.fundedMicros + 500_000_000_000,
    }))
    await adversary.send([topUp, signedByAdversary(topUp)])
    await eventually(async () => {
      expect(await forged('wallet.journal')).toBeGreaterThanOrEqual(2)
    })
    await environment.restart()
    await environment.unlocked()
    expect(await balance()).toEqual(before)
    expect(await runJob()).toMatchObject({ status: 'completed' })
    await expectSound()
  })

  it('stops neither the copy, nor recovery, nor the audit when it is garbage', async () => {
    const garbage = { key: Buffer.from(environment.tenant), value: Buffer.from([7]), headers: {} }
    await adversary.send([0, 1].map(partition =>
      ({ ...garbage, topic: 'wallet.journal', partition })))
    await environment.restart()
    await environment.unlocked()
    expect(await runJob()).toMatchObject({ status: 'completed' })
    await expectSound()
  })
})

it('a snapshot of a wallet that no service wrote ' +
  'gives no money to a Redis that has lost everything', async () => {
  await runJob()
  await environment.shipped()
  await untilConsumed(environment.env)
  const before = await balance()
  const gift = 500_000_000_000
  const value = await codec.encode('wallet.snapshots-value', {
    ...before,
    tenant: environment.tenant,
    at: Date.now(),
    availableMicros: before.availableMicros + gift,
    fundedMicros: before.fundedMicros + gift,
    open: [],
    posted: [],
    from: [0, 0],
  })
  const headers = { tenant: environment.tenant }
  const snapshot =
    { topic: 'wallet.snapshots', key: Buffer.from(environment.tenant), value, headers }
  const known = await forged('wallet.snapshots')
  await adversary.send([snapshot, signedByAdversary(snapshot)])
  await environment.services.setScale({ lookup: 0, settle: 0 })
  await environment.restart(emptyFolder)
  await environment.services.setScale({})
  await environment.unlocked()
  expect(await balance()).toEqual(before)
  expect(await forged('wallet.snapshots')).toBeGreaterThanOrEqual(known + 2)
  expect(await runJob()).toMatchObject({ status: 'completed' })
  await expectSound()
})

it('in the topic of data keys, ' +
  'an unsigned tombstone erases nothing, and garbage stops nothing', async () => {
  const { id } = await runJob()
  const results = await environment.client().results(id)
  const headers = { tenant: environment.tenant, job: id }
  const of = { topic: 'job.keys', key: Buffer.from(id), headers }
  await adversary.send([
    { ...of, value: null }, signedByAdversary({ ...of, value: null }),
    { ...of, value: Buffer.from([7]) },
  ])
  await environment.shipped()
  await environment.services.setScale({ ledger: 0, lookup: 0, settle: 0 })
  await environment.restart(emptyFolder)
  await environment.services.setScale({})
  await environment.unlocked()
  expect(await environment.client().results(id)).toBe(results)
})

it('in the topic of accounts, a forged or replayed record restores no revoked key', async () => {
  const { orgId } = environment.demo
  const secret = await withWorkspace(environment.env, async ({ apiKeys, accounts }) => {
    const key = await apiKeys.create({ orgId, mode: 'live', scopes: ['jobs:read'] })
    expect(await accounts.areShipped()).toBe(true)
    await apiKeys.revoke(orgId, key.id)
    expect(await accounts.areShipped()).toBe(true)
    return key.secret
  })
  const name = `key:${hashSecret(secret)}`
  const records = (await adversary.capture('accounts')).filter(({ key }) => String(key) === name)
  const [working, revoked] = [records[0]!, records.at(-1)!]
  const newer = await adversary.changed(revoked, account => ({
    ...account,
    revision: 9,
    fields: (account.fields as { name: string }[]).filter(field => field.name !== 'revokedAt'),
  }))
  await adversary.send([newer, signedByAdversary(newer), working])
  await environment.shipped()
  await environment.services.setScale({ ledger: 0, lookup: 0, settle: 0 })
  await environment.restart(emptyFolder)
  await environment.services.setScale({})
  await environment.unlocked()
  await expect(environment.client({ apiKey: secret, retries: 0 }).balance()).rejects
    .toMatchObject({ status: 401, code: 'revoked_key' })
  expect(await forged('accounts')).toBeGreaterThanOrEqual(2)
})

it.each([
  ['rows.normalized.small', 'lookup'],
  ['rows.to-verify.small.phone-validation', 'verify'],
  ['rows.completed.small', 'settle'],
])(
  'a changed copy of a message that carries rows ' +
  'in %s changes neither what is charged nor a row', async (topic, reader) => {
    const usual = await runJob()
    await environment.services.setScale({ [reader]: 0 })
    const captured = new Set((await adversary.capture(topic)).map(({ offset }) => offset))
    const posting = environment.client().createJob(request)
    const fresh = await eventually(async () => {
      const found = await adversary.capture(topic)
      expect(found.length).toBeGreaterThan(captured.size)
      return found
    })
    await adversary.send(await Promise.all(fresh.flatMap(message => [
      adversary.changed(message, value => ({ ...value, service: 'whatsapp' })),
      adversary.changed(message, value => ({ ...value, rows: 1, totalRows: 1 })),
      adversary.changed(message, value => ({ ...value, tenant: 'org_other.live' })),
    ])))
    await environment.services.setScale({})
    const { id } = await posting
    const job = await environment.client().waitForEnd(id)
    expect(job).toMatchObject({
      status: 'completed',
      chargedMicros: usual.chargedMicros,
      successRecords: usual.successRecords,
      failedRecords: usual.failedRecords,
    })
    await eventually(async () => {
      expect(await forged(topic)).toBeGreaterThanOrEqual(3 * fresh.length)
    })
    await expectSound()
  })

it('garbage with the headers of another customer\'s job ' +
  'refuses no pending request, and ends no rows', async () => {
  await environment.services.setScale({ normalize: 0 })
  const posting = environment.client().createJob(request)
  const submitted = await eventually(async () => {
    const found = await adversary.capture('rows.submitted.small')
    const { length } = found.filter(({ headers }) => headers['tenant'] === environment.tenant)
    expect(length).toBeGreaterThan(0)
    return found
  })
  const newest = submitted.toSorted((a, b) => a.timestampMs - b.timestampMs).at(-1)!
  await adversary.send([0, 1, 2, 3].flatMap(partition => [
    { ...newest, partition, value: Buffer.from('garbage') },
    { ...newest, partition, value: null },
  ]))
  await environment.services.setScale({})
  const { id } = await posting
  const job = await environment.client().waitForEnd(id)
  expect(job).toMatchObject({ status: 'completed', totalRows: inputs.length })
  expect(await sumOf(environment.services.list(), 'stage_dead_letters_total')).toBe(0)
})
