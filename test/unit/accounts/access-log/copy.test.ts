import { describe, expect, it } from 'vitest'
import type { NumberedEntry } from '../../../../services/accounts/access-log/access-log.ts'
import {
  readAccessHead, createAccessCopy, walkAccessLog,
} from '../../../../services/accounts/access-log/copy.ts'
import { CHAIN_START } from '../../../../services/money/journal.ts'
import { accessEntry } from '../../../support/access.ts'
import { codec } from '../../../support/clickhouse/results.ts'
import { createClickhouseDouble } from '../../../support/clickhouse/stored.ts'
import { recordMacOf } from '../../../support/keys/signed.ts'

const numbers = (count: number) => Array.from({ length: count }, (_, index) => index + 1)
const all = numbers(5_000).map(seq => accessEntry({ seq }))
const without = (...seqs: readonly number[]) => all.filter(({ seq }) => !seqs.includes(seq))

type Stores = {
  readonly topic?: readonly NumberedEntry[]
  readonly stored?: readonly NumberedEntry[]
  readonly forged?: readonly number[]
  readonly copied?: number
}

function depsOf ({ topic = all, stored = all, forged = [], copied = 0 }: Stores) {
  const copy = {
    range: async (from: number, to: number) => ({
      entries: stored.filter(({ seq }) => seq >= from && seq <= to),
      forged: forged.filter(seq => seq >= from && seq <= to),
    }),
    pages: async function * (after: number) {
      yield await copy.range(after + 1, 2_500)
      yield await copy.range(Math.max(after + 1, 2_501), Infinity)
    },
  }
  return {
    copy,
    codec,
    head: { read: async () => copied },
    read: async (_topic: string, onMessages: (messages: readonly never[]) => Promise<void>) => {
      const messages = await Promise.all(topic.map(async ({ seq, ...entry }) => ({
        offset: BigInt(seq - 1), value: await codec.encode('access.log-value', entry),
      })))
      for (let at = 0; at < messages.length; at += 700) {
        await onMessages(messages.slice(at, at + 700) as never)
      }
      return new Map()
    },
  }
}

const walk = (stores: Stores, options = {}) => walkAccessLog(depsOf(stores) as never, options)
const detailsOf = async (stores: Stores, options = {}) =>
  (await walk(stores, options)).findings.map(({ detail }) => detail)

describe('the check of the access log', () => {
  it('finds nothing in two equal stores, and passes each entry on with its hash', async () => {
    const passed = new Map<number, string>()
    const { head, findings } = await walk({ copied: 5_000 }, {
      onEntry: ({ seq }: NumberedEntry, hash: string) => { passed.set(seq, hash) },
    })
    expect(findings).toEqual([])
    expect([...passed.keys()]).toEqual(numbers(5_000))
    expect([head.seq, head.hash]).toEqual([5_000, passed.get(5_000)])
    expect(new Set(passed.values()).size).toBe(5_000)
  })

  it('names entries that were removed from one store', async () => {
    expect(await detailsOf({ stored: without(1, 4_000, 4_001) })).toEqual([
      'entry 1 is missing in ClickHouse', 'entries 4000 to 4001 are missing in ClickHouse',
    ])
    expect(await detailsOf({ topic: without(1, 2, 3, 5_000) })).toEqual([
      'entries 1 to 3 are missing in Kafka', 'entry 5000 is missing in Kafka',
    ])
  })

  it('names entries that were removed from both stores, also the last ones', async () => {
    const left = without(7, 4_999, 5_000)
    expect(await detailsOf({ topic: left, stored: left, copied: 5_000 })).toEqual([
      'entry 7 is missing in Kafka and in ClickHouse',
      'entries 4999 to 5000 are missing in Kafka and in ClickHouse',
    ])
  })

  it('expects an entry of the last minutes in ClickHouse only once it was copied', async () => {
    const recent = [...all, accessEntry({ seq: 5_001, at: Date.now() })]
    expect(await detailsOf({ topic: recent })).toEqual([])
    expect(await detailsOf({ stored: recent })).toEqual([])
    expect(await detailsOf({ topic: recent, copied: 5_001 })).toEqual([
      'entry 5001 is missing in ClickHouse',
    ])
  })

  it('finds an exported head, and misses it once the entries before it differ', async () => {
    const exported = await readAccessHead(depsOf({ stored: all.slice(0, 3_000) }).copy, CHAIN_START)
    const { copy } = depsOf({})
    expect((await readAccessHead(copy, exported)).hash).toBe((await walk({})).head.hash)
    expect(await detailsOf({}, { exported })).toEqual([])
    const other = all.with(0, { ...all[0]!, actor: 'key_2' })
    const detail = `entry 3000 had the hash ${exported.hash} when it was exported; it or an ` +
      'entry before it was removed or changed'
    expect(await detailsOf({ topic: other, stored: other }, { exported })).toEqual([detail])
    const short = all.slice(0, 2_999)
    expect(await detailsOf({ topic: short, stored: short }, { exported })).toEqual([
      'entry 3000 is missing in Kafka and in ClickHouse', detail,
    ])
  })
})

const entries = [1, 2, 3].map(seq => accessEntry({ seq }))

function copyOn (...answers: readonly (readonly object[])[]) {
  const double = createClickhouseDouble(...answers)
  return { ...double, copy: createAccessCopy(double.clickhouse, recordMacOf()) }
}

/** Rows as they are stored, as ClickHouse gives them back. */
async function stored (some = entries) {
  const { copy, inserted } = copyOn()
  await copy.append(some)
  return inserted.map(({ at, ...row }): Record<string, unknown> =>
    ({ ...row, at: String(Date.parse(String(at))) }))
}

describe('the copy of the access log', () => {
  it('reports a row in which any column was changed', async () => {
    const [row] = await stored()
    const columns = Object.keys(row!).filter(name => name !== 'mac')
    const changed = columns.map(name =>
      ({ ...row, [name]: name === 'seq' ? 1_000 : `${row![name]}1` }))
    const { entries: found, forged } = await copyOn(changed).copy.range(1, 1_000)
    expect([columns.length, found, forged.length]).toEqual([11, [], 11])
  })

  it('is read in pages that skip missing numbers', async () => {
    const rows = await stored()
    const { copy, queries } = copyOn([{ number: '2' }], rows.slice(1), [{ number: '9000' }], [], [])
    const pages: number[] = []
    for await (const page of copy.pages(1)) pages.push(page.entries.length)
    expect(pages).toEqual([2, 0])
    expect(queries.map(({ parameters }) => parameters)).toEqual([
      { after: 1 }, { from: 2, to: 5_001 }, { after: 5_001 }, { from: 9_000, to: 13_999 },
      { after: 13_999 },
    ])
  })

  it('lists an entry that was sent twice once, and ends at the limit', async () => {
    const again = { ...accessEntry({ seq: 4 }), entryId: entries[2]!.entryId }
    const rows = (await stored([...entries, again])).toReversed()
    const { copy, queries } = copyOn(rows, rows)
    const filter = { organization: 'org_1', action: 'key.created', before: 9 }
    expect((await copy.newest({ ...filter, limit: 2 })).map(({ seq }) => seq)).toEqual([4, 2])
    expect((await copy.newest({ organization: 'org_1', limit: 9 })).map(({ seq }) => seq))
      .toEqual([4, 2, 1])
    expect(queries[0]?.parameters).toEqual({
      tenant: 'org_1', action: 'key.created', actor: '', sinceMs: 0, before: 9,
    })
  })

  it('inserts rows again that were deleted since their first insert', async () => {
    const { copy, tokens } = copyOn()
    await copy.append(entries)
    await copy.append(entries)
    // Of two inserts with the same token ClickHouse drops the later one.
    expect(new Set(tokens).size).toBe(2)
  })
})
