import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { START } from '../../../services/records/journal-chain.ts'
import { createHeadsCodec } from '../../../services/records/journal-heads.ts'
import { createPosition } from '../../../services/workspace/audit-position.ts'
import { messageKeysOf } from '../../support/signed.ts'

let kept: string | null = null
const redis = {
  get: async () => kept,
  set: async (_key: string, text: string) => { kept = text },
} as unknown as Pick<Redis, 'get' | 'set'>
const keys = messageKeysOf()
const position = createPosition(redis, keys)

const proven = new Map([
  ['org_1.live', { seq: 1, hash: 'a1', missing: [], before: START, at: 7 }],
  ['org_2.live', {
    seq: 9, hash: 'b9', missing: [], before: { seq: 8, hash: 'b8', missing: [] }, at: 7,
  }],
])

it('a position is read as it was kept', async () => {
  kept = null
  expect(await position.read()).toEqual(new Map())
  await position.keep(proven)
  const read = await position.read()
  expect([...read.keys()]).toEqual([...proven.keys()])
  for (const [tenant, head] of proven) expect(read.get(tenant)).toMatchObject(head)
  await position.keep(new Map())
  expect(await position.read()).toEqual(new Map())
})

it('a position that is not authentic is none, as heads are that nobody has proven', async () => {
  await position.keep(proven)
  const text = String(kept)
  const exported = createHeadsCodec(keys)
  const tenants = [
    { tenant: 'org_1.live', ...START }, { tenant: 'org_1.live', seq: 1, hash: 'a', missing: [] },
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
