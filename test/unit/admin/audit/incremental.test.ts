import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { CHAIN_START, createHeadsCodec } from '../../../../services/money/journal.ts'
import { auditIncrementally, createPosition } from '../../../../services/admin/audit/incremental.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'

let kept: string | null = null
const redis = {
  get: async () => kept,
  set: async (_key: string, text: string) => { kept = text },
} as unknown as Pick<Redis, 'get' | 'set'>
const keys = messageKeysOf()
const position = createPosition(redis, keys)

const proven = new Map([
  ['org_1.live', { seq: 1, hash: 'a1', missing: [], before: CHAIN_START, at: 7 }],
  ['org_2.live', {
    seq: 9, hash: 'b9', missing: [], before: { seq: 8, hash: 'b8', missing: [] }, at: 7,
  }],
])

it('an audit position is read as it was written', async () => {
  kept = null
  expect(await position.read()).toEqual(new Map())
  await position.write(proven)
  const read = await position.read()
  expect([...read.keys()]).toEqual([...proven.keys()])
  for (const [tenant, head] of proven) expect(read.get(tenant)).toMatchObject(head)
  await position.write(new Map())
  expect(await position.read()).toEqual(new Map())
})

it('an unauthentic audit position reads as empty, and so do exported heads', async () => {
  await position.write(proven)
  const text = String(kept)
  const exported = createHeadsCodec(keys)
  const tenants = [
    { tenant: 'org_1.live', ...CHAIN_START },
    { tenant: 'org_1.live', seq: 1, hash: 'a', missing: [] },
  ]
  const others = [
    text.replace('"seq":9', '"seq":10'), text.slice(0, -1), 'null',
    exported.encode({ at: 7, tenants }),
  ]
  for (const other of others) {
    kept = other
    expect(await position.read()).toEqual(new Map())
  }
})

it.each([
  [0, 'less than a minute'], [9_000_000, 'about 3 minutes'], [720_000_000, 'about 4 hours'],
])('an audit of %i rows first says that it takes %s', async (rows, time) => {
  const lines: string[] = []
  await auditIncrementally({
    counts: { rowsSince: async () => rows }, kafka: { containing: async () => new Set() },
  } as never, { only: [], from: new Map(), onProgress: line => { lines.push(line) } })
  expect(lines)
    .toEqual([`reading 0 journal entries and about ${rows} result rows of 0 tenants: ${time}`])
})
