import { randomBytes } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { newJobId } from '../../services/jobs/job.ts'
import { joinJobKey } from '../../services/jobs/job-keys.ts'
import { withKeyId } from '../../services/runtime/crypto/key-ring.ts'
import { createRecordMac } from '../../services/runtime/crypto/mac.ts'
import { closedKeys, createJobKeyCopy, toTombstone } from '../../services/jobs/wrapped-keys.ts'
import { filesWith } from '../support/bytes.ts'
import { connectAll } from '../support/stacks/connected.ts'
import { newOrganization } from '../support/organizations.ts'
import { messageKeysOf } from '../support/keys/signed.ts'
import { testStack } from '../support/stacks/stack.ts'

const { clickhouse, connected, env, keys } = connectAll()
const forged: string[] = []
const mac = createRecordMac(messageKeysOf(env), ({ id }) => { forged.push(id) })
const copy = createJobKeyCopy(clickhouse, mac)
const folder = `${testStack().dataDir}/clickhouse`

// ledger may copy a key from the topic later, whose organization must have keys then.
const tenant = `${await newOrganization(env)}.live`
await keys.create(tenant, 'job_1')
// A count of what keys of the ring wrap must not include these.
afterAll(async () => {
  await clickhouse.command('ALTER TABLE job_keys DELETE WHERE endsWith(tenant, {tenant:String}) ' +
      'SETTINGS mutations_sync = 1', { tenant })
  await connected.bus.producer('test').send(sentJobs.map(job => toTombstone(tenant, job)))
})

/** Jobs with a key in the topic. */
const sentJobs: string[] = []

const keyOf = (job = newJobId(Date.now()), wrapped: Buffer = randomBytes(60)) =>
  ({ tenant, job, wrapped, createdMs: Date.now() })

/** A stored data key whose parts a key of this id wraps. */
const wrapBy = (id: string) => joinJobKey({
  results: withKeyId(id, randomBytes(60)), webhooks: withKeyId('webhooks.1', randomBytes(60)),
})

const filesOf = (...keys: readonly { readonly wrapped: Buffer }[]) =>
  filesWith(folder, keys.map(({ wrapped }) => wrapped)).length

describe('the copy of data keys', () => {
  it('finds the newest of each job, however often it was stored', async () => {
    const [one, other] = [keyOf(), keyOf()]
    await copy.append([one, other])
    await copy.append([one, other])
    const fresh = { ...keyOf(one.job), createdMs: one.createdMs + 1 }
    await copy.append([fresh])
    const names = [one.job, other.job, newJobId(Date.now())]
    expect(await Promise.all(names.map(job => copy.find(tenant, job))))
      .toEqual([fresh.wrapped, other.wrapped, undefined])
    expect(await copy.find('org_other.live', one.job)).toBeUndefined()
  })

  it('falls back to the topic where ledger has not copied a key yet', async () => {
    const job = newJobId(Date.now())
    const [late, copied] = [keyOf(job, wrapBy('results.1')), keyOf()]
    const value = await connected.codec.encode('job.keys-value', late)
    const headers = { tenant, job: late.job }
    sentJobs.push(late.job)
    await connected.bus.producer('test')
      .send([{ topic: 'job.keys', key: late.job, value, headers }])
    await copy.append([copied])
    const find = closedKeys({ ...connected, recordMac: mac })
    expect([await find(tenant, late.job), await find(tenant, copied.job)])
      .toEqual([late.wrapped, copied.wrapped])
    expect(await find(tenant, newJobId(Date.now()))).toBeUndefined()
  })

  it('skips unsigned rows, and reports them', async () => {
    const [key, other] = [keyOf(), keyOf()]
    await copy.append([key])
    const content = other.wrapped.toString('base64')
    const moved = mac.sign({ table: 'job_keys', tenant, id: other.job, content })
    await clickhouse.insert({
      table: 'job_keys',
      values: [['', ''], ['AAAA', 'none'], [content, moved]].map(([wrapped, mac]) => ({
        tenant, job: key.job, wrapped_base64: wrapped, created: '2100-01-01 00:00:00', mac,
      })),
    })
    expect(await copy.find(tenant, key.job)).toEqual(key.wrapped)
    expect(forged).toEqual([key.job, key.job, key.job])
  })

  it('keeps only the new rows of rewrapped jobs', async () => {
    const [old, untouched] =
      [keyOf(undefined, wrapBy('results.1')), keyOf(undefined, wrapBy('results.1'))]
    const fresh = { ...old, wrapped: wrapBy('results.2') }
    const elsewhere = { ...keyOf(old.job, wrapBy('results.1')), tenant: `other-${tenant}` }
    await copy.append([old, untouched, elsewhere])
    await copy.append([fresh])
    await copy.keepWrappedBy([tenant], 'results.2')
    const all = new Map<string, Buffer[]>()
    for await (const { tenant: of, job, wrapped } of copy.all()) {
      all.set(`${of} ${job}`, [...all.get(`${of} ${job}`) ?? [], wrapped])
    }
    expect(all.get(`${tenant} ${old.job}`)).toEqual([fresh.wrapped])
    expect(all.get(`${tenant} ${untouched.job}`)).toEqual([untouched.wrapped])
    expect(all.get(`other-${tenant} ${old.job}`)).toEqual([elsewhere.wrapped])
    await expect.poll(() => filesOf(old)).toBe(0)
  })

  it('leaves no byte of erased jobs on the disk, and keeps all others', async () => {
    const [one, two, other] = [keyOf(), keyOf(), keyOf()]
    await copy.append([one, other])
    await copy.append([two])
    expect([filesOf(one), filesOf(two), filesOf(other)]).not.toContain(0)
    await copy.erase(tenant, [one.job, two.job])
    expect(await copy.rowsOf(tenant, [one.job, two.job, other.job])).toEqual([other.job])
    expect(await copy.find(tenant, other.job)).toEqual(other.wrapped)
    await expect.poll(() => filesOf(one, two)).toBe(0)
    expect(filesOf(other)).toBeGreaterThan(0)
  })
})
