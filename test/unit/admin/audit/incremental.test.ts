import type { Redis } from 'ioredis'
import { expect, it } from 'vitest'
import { CHAIN_START, createHeadsCodec } from '../../../../services/money/journal-chain.ts'
import { createPosition, startProgress } from '../../../../services/admin/audit/incremental.ts'
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

function track (all: { readonly entries: number, readonly rows: number }) {
  const lines: string[] = []
  const clock = { ms: 0 }
  const onRead = startProgress({ ...all, tenants: 3 }, {
    onProgress: line => lines.push(line), now: () => clock.ms,
  })
  return { lines, clock, onRead }
}

it('an audit first reports how much there is to read and about how long it takes', () => {
  const startOf = (entries: number, rows: number) => track({ entries, rows }).lines[0]
  expect(startOf(7, 0)).toBe('reading 7 journal entries and about 0 result rows of ' +
    '3 tenants: less than a minute')
  expect(startOf(3_000_000, 6_000_000)).toMatch(/: about 3 minutes$/)
  expect(startOf(0, 720_000_000)).toMatch(/: about 4 hours$/)
})

it('an audit estimates the remaining time once it has read one percent', () => {
  const { lines, clock, onRead } = track({ entries: 10_000, rows: 0 })
  for (const [ms, entries] of [[6_000, 0], [12_000, 1], [20_000, 98], [30_000, 1]] as const) {
    clock.ms = ms
    onRead({ entries, rows: 0 })
  }
  expect(lines.slice(1))
    .toEqual(['0 % read', '0 % read', '0 % read', '1 % read, about 50 minutes left'])
})

it('an audit reports its progress every five seconds', () => {
  const { lines, clock, onRead } = track({ entries: 1_000, rows: 3_000 })
  clock.ms = 4_999
  onRead({ entries: 100, rows: 0 })
  expect(lines).toHaveLength(1)
  clock.ms = 100_000
  onRead({ entries: 100, rows: 800 })
  onRead({ entries: 0, rows: 1 })
  expect(lines.slice(1)).toEqual(['25 % read, about 5 minutes left'])
  clock.ms = 200_000
  onRead({ entries: 9_000, rows: 9_000 })
  expect(lines.at(-1)).toBe('100 % read, less than a minute left')
})
