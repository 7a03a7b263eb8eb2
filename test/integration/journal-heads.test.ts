import { readFileSync, writeFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Journal } from '../../schemas/types.ts'
import { ACCESS_CHAIN, createAccessCopy } from '../../services/accounts/access-log/copy.ts'
import { tenantOf } from '../../services/accounts/tenant.ts'
import { createMetrics } from '../../services/runtime/platform/metrics.ts'
import { createHeadTarget, startHeadExport } from '../../services/ledger/head-export.ts'
import { EXPORTED_KEY } from '../../services/money/redis-keys.ts'
import { CHAIN_START, createHeadsCodec, extendChain } from '../../services/money/journal.ts'
import { createTenants } from '../../services/money/wallet.ts'
import { runAudit } from '../../services/admin/audit/run.ts'
import { createDemo } from '../../services/admin/demo.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { eventually } from '../support/eventually.ts'
import { acceptedJob, entryOf, TENANT } from '../support/stage-messages.ts'
import { startReceiver } from '../support/webhooks/receiver.ts'
import { type RunningServices, startAlone } from '../support/stacks/services.ts'
import { messageKeysOf } from '../support/keys/signed.ts'
import { testStack } from '../support/stacks/stack.ts'
import { newFolder } from '../support/folder.ts'

const { clickhouse, clock, env, journal, recordMac, state, wallet } = connectAll()
const codec = createHeadsCodec(messageKeysOf(env))
const folder = newFolder('verification-jobs-heads-')
const file = `${folder}/heads.ndjson`

let services: RunningServices
let tenant: string
/** The entries of the tenant but the first one. */
let end: readonly Journal[]
const deleteEnd = () => clickhouse.command(`
  ALTER TABLE journal DELETE WHERE tenant = '${tenant}' AND seq > 1
    SETTINGS mutations_sync = 1`)
/** What was exported of the tenant, an export each. */
const exported = () => readFileSync(file, 'utf8').trimEnd().split('\n')
  .map(line => codec.decode(line)?.tenants.find(head => head.tenant === tenant)?.seq)
/** What the audit finds wrong with the tenant; it waits for no tenant whose entries are gone. */
const breaches = async (journalHead: string) =>
  (await runAudit(env, { only: [tenant], journalHead, waitMs: 1_000 })).breaches

beforeAll(async () => {
  services = await startAlone({
    env,
    stages: ['ledger'],
    servicesDir: testStack().servicesDir,
    overrides: { JOURNAL_HEAD_TARGET: file, JOURNAL_HEAD_EVERY_MS: '100' },
  })
  const { orgId } = await createDemo(env)
  tenant = tenantOf(orgId, 'live')
  await wallet.topUp(tenant, { id: 'second', amountMicros: 5, reason: '' })
  await wallet.topUp(tenant, { id: 'third', amountMicros: 5, reason: '' })
  await eventually(() => expect(exported()).toContain(3))
  end = (await journal.read(tenant)).entries.slice(1)
})
afterAll(async () => {
  await services?.stop()
})

describe('the head of the journal in a file', () => {
  it('is in the journals that it was exported from', async () => {
    expect(await breaches(file)).toEqual([])
  })

  it('of the access log alone has everything read, too', async () => {
    const alone = `${folder}/access-log.ndjson`
    const head = { tenant: ACCESS_CHAIN, seq: 1, hash: '', missing: [] }
    writeFileSync(alone, codec.encode({ at: 1, tenants: [head] }))
    const lines: string[] = []
    await runAudit(env, {
      only: [tenant], journalHead: alone, incremental: true, onProgress: line => lines.push(line),
    })
    // Only an incremental audit reports progress.
    expect(lines).toEqual([])
  })

  it('that was changed is refused', async () => {
    const changed = `${folder}/changed.ndjson`
    writeFileSync(changed, readFileSync(file, 'utf8').replace('"seq":3', '"seq":2'))
    await expect(breaches(changed)).rejects.toThrow(/^line \d+ of .+ is not authentic/)
  })

  it('is missed when the end of the journal was deleted, and later exports keep it', async () => {
    await deleteEnd()
    const before = exported().length
    await eventually(() => expect(exported().slice(before)).toContain(3))
    expect(exported().slice(before)).not.toContain(1)
    const rule = 'the journal contains the exported head'
    const found = (await breaches(file)).filter(breach => breach.rule === rule)
    expect(found).toMatchObject([{
      tenant,
      detail: expect.stringMatching(
        /^entry 3 with hash \w{64} was exported at .+; the journal in ClickHouse lacks entry 2$/),
    }])
  })

  it('is in the journal again once its entries are copied again, however often', async () => {
    for (const time of [1, 2]) {
      for (const entry of end) await journal.append([entry])
      const { entries } = await journal.read(tenant)
      expect([time, ...entries.map(({ seq }) => seq)]).toEqual([time, 1, 2, 3])
      if (time === 1) await deleteEnd()
    }
    expect(await breaches(file)).toEqual([])
  })
})

it('an entry whose row was changed in ClickHouse is stored again by its message', async () => {
  const other = `${tenant}-changed`
  const stored = [1, 2].map(seq => ({ ...entryOf(TENANT, acceptedJob()), tenant: other, seq }))
  await journal.append(stored)
  await clickhouse.command(`
    ALTER TABLE journal UPDATE amount_micros = 1 WHERE tenant = '${other}' AND seq = 2
      SETTINGS mutations_sync = 1`)
  expect(await journal.append(stored)).toEqual([stored[1]])
  expect(await journal.read(other)).toEqual({ entries: stored, forged: [2] })
  expect(await journal.append(stored)).toEqual([])
})

describe('the newest movements', () => {
  const numbered = (seq: number, entryId: string, type: string, charge = 0): Journal => ({
    ...entryOf(TENANT, acceptedJob()),
    seq,
    entryId,
    type,
    job: type === 'topup' ? '' : 'job_j',
    chargeMicros: charge,
  })
  const [x, y] = ['x', 'y'].map(id =>
    (seq: number) => numbered(seq, `topup:${id}`, 'topup')) as [
    (seq: number) => Journal, (seq: number) => Journal]
  const settle = (seq: number, charge = 2) => numbered(seq, 'job_j:settle', 'settle', charge)
  const release = (seq: number) => numbered(seq, 'job_j:void', 'void')
  const lost = numbered(7, 'missing:7', 'topup')
  const trusted = (seq: number) => numbered(seq, `trusted:${seq}`, 'topup')

  it.each<readonly [string, readonly Journal[], string | undefined, readonly Journal[]]>([
    ['of a number that another has', [x(7), y(7), x(8)], undefined, [x(8), y(7)]],
    ['of one type', [settle(7), y(7), settle(8)], 'settle', [settle(8)]],
    ['of the type of another entry of the number', [settle(7), y(7), settle(8)], 'topup', [y(7)]],
    ['of two numbers that are swapped', [x(7), y(7), x(8), y(8)], undefined, [x(8), y(8)]],
    ['of ends that differ', [settle(7), release(7)], undefined, [release(7)]],
    ['of charges that differ', [settle(7), settle(7, 1), x(6)], undefined, [settle(7, 1), x(6)]],
    ['of a charge that is higher later', [settle(7, 1), y(7), settle(8)], undefined,
      [settle(7, 1), y(7)]],
    ['of a charge that is lower later', [settle(7), y(7), settle(8, 1)], undefined,
      [settle(8, 1), y(7)]],
    ['of ends among a type', [settle(7, 1), y(7), settle(8)], 'settle', [settle(7, 1)]],
    ['of a charge that is lower before', [settle(6, 1), y(6), settle(7), x(8)], undefined,
      [x(8), settle(6, 1), y(6)]],
    ['of what was reconstructed', [lost, x(7)], undefined, [x(7)]],
    ['behind trust', [x(6), trusted(7), trusted(8), trusted(9)], undefined, [x(6)]],
  ])('are once each: %s', async (title, stored, type, expected) => {
    const names = (entries: readonly Journal[]) => entries
      .map(({ seq, entryId, chargeMicros }) => `${seq} ${entryId} ${chargeMicros}`)
    // Rows of one number come in the order of their MACs, which differs by tenant.
    for (const copy of [1, 2, 3, 4]) {
      const other = `${tenant}-${title.replaceAll(' ', '-')}-${copy}`
      await journal.append(stored.map(entry => ({ ...entry, tenant: other })))
      const newest = await journal.readNewest(other, { limit: 2, type })
      expect(newest.map(({ seq }) => seq)).toEqual(expected.map(({ seq }) => seq))
      expect(names(newest).toSorted()).toEqual(names(expected).toSorted())
    }
  })

  it('of one number are all on one page', async () => {
    const other = `${tenant}-paged`
    const stored = [x(6), x(7), y(7), x(8), y(8)]
    await journal.append(stored.map(entry => ({ ...entry, tenant: other })))
    expect((await journal.readNewest(other, { limit: 1 })).map(({ seq }) => seq)).toEqual([8, 8])
  })
})

it('the head of the journal at an address comes again until it is accepted', async () => {
  await services.stop()
  await state.del(EXPORTED_KEY)
  const { port, received, until } = await startReceiver((response, _received, count) =>
    response.writeHead(count === 1 ? 503 : 204).end())
  const errors: unknown[] = []
  const { stop } = startHeadExport({
    redis: state,
    tenants: createTenants(state),
    codec,
    target: createHeadTarget(`http://127.0.0.1:${port}/`),
    everyMs: 500,
    journal,
    accessCopy: createAccessCopy(clickhouse, recordMac),
    clock,
    isLeader: () => true,
    log: { info: () => {}, error: (fields: unknown) => { errors.push(fields) } } as never,
    metrics: createMetrics(),
  })
  await until(2)
  await eventually(async () => expect(await state.get(EXPORTED_KEY)).not.toBeNull())
  await stop()
  expect(errors).toMatchObject([{ err: { message: expect.stringContaining('status 503') } }])
  for (const { body } of received) {
    const heads = codec.decode(body)
    expect(heads?.tenants).toContainEqual({
      tenant, ...(await journal.read(tenant)).entries.reduce(extendChain, CHAIN_START),
    })
  }
})
