import { describe, expect, it } from 'vitest'
import { createRecordMac, type SignedRecord } from '../../../services/runtime/crypto/mac.ts'
import { CHAIN_START, extendChain } from '../../../services/money/journal-chain.ts'
import { createJournalCopy } from '../../../services/money/journal-copy.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../support/stage-messages.ts'
import { createClickhouseDouble } from '../../support/clickhouse/stored.ts'

const entry = (seq: number, tenant = TENANT) => ({
  ...entryOf(tenant, acceptedJob()),
  seq,
  header: Buffer.from(`sealed ${seq}`),
})
const entries = [entry(1), entry(2), entry(3)]
const HUGE = '9223372036854775807'

/** The copy on ClickHouse with these responses; `forged` are the reported records. */
function copyOn (...answers: readonly (readonly object[])[]) {
  const double = createClickhouseDouble(...answers)
  const forged: SignedRecord[] = []
  const mac = createRecordMac(messageKeysOf(), record => forged.push(record))
  return { ...double, forged, copy: createJournalCopy(double.clickhouse, mac) }
}

/** Rows as they are stored, as ClickHouse gives them back. */
async function stored (some = entries) {
  const { copy, inserted } = copyOn()
  await copy.append(some)
  return inserted.map(({ at, ...row }) => ({
    ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
    at: String(Date.parse(String(at))),
  }) as Readonly<Record<string, string>>)
}

describe('the copy of the journal in ClickHouse', () => {
  it('returns stored entries, each once', async () => {
    const [one, two, three] = await stored()
    const { copy, forged } = copyOn([one!, one!, two!, three!])
    expect(await copy.read(TENANT)).toEqual({ entries, forged: [] })
    expect(forged).toEqual([])
  })

  it('leaves out changed rows, and reports their seqs', async () => {
    const [one, two, three] = await stored()
    const changes = [
      { amount_micros: '1' }, { reason: 'x' }, { seq: HUGE }, { mac: '' }, { charge_micros: '9' },
      { header_base64: Buffer.from('x').toString('base64') }, { mac: two!['mac'] },
    ]
    const rows = changes.map(change => ({ ...three, ...change }))
    const { copy, forged } = copyOn([one!, ...rows, two!])
    const found = await copy.read(TENANT)
    expect(found.entries).toEqual(entries.slice(0, 2))
    expect(found.forged).toEqual([3, 3, Number(HUGE), 3, 3, 3, 3])
    expect(forged).toHaveLength(7)
    expect(forged[0]).toMatchObject({ table: 'journal', tenant: TENANT, id: '3' })
  })

  it('leaves out rows of one tenant that were stored for another', async () => {
    const rows = (await stored()).map(row => ({ ...row, tenant: 'org_other.live' }))
    const { copy } = copyOn(rows)
    expect(await copy.read('org_other.live')).toEqual({ entries: [], forged: [1, 2, 3] })
  })

  it('returns both of two entries with one seq', async () => {
    const other = { ...entry(2), reason: 'another' }
    const rows = await stored([entry(1), entry(2), other])
    const { copy } = copyOn([...rows, rows[1]!])
    expect((await copy.read(TENANT)).entries).toEqual([entry(1), entry(2), other])
  })

  it('stores an entry once, in any order and however often it is appended', async () => {
    const macs = (await stored()).map(({ mac }) => ({ mac }))
    const { copy, queries, inserted } = copyOn([], [macs[1]!, macs[2]!], macs)
    expect(await copy.append([entry(3), entry(2), entry(3)])).toEqual([entry(3), entry(2)])
    expect(await copy.append([entry(3), entry(1), entry(2)])).toEqual([entry(1)])
    expect(await copy.append(entries)).toEqual([])
    expect(inserted.map(({ seq }) => seq)).toEqual([3, 2, 1])
    expect(queries[0]?.query_params).toMatchObject({ tenants: [TENANT], seqs: [3, 2] })
  })

  it('looks up a bounded number of entries per query', async () => {
    const { copy, queries, inserted } = copyOn()
    await copy.append(Array.from({ length: 250 }, (_, index) => entry(index + 1)))
    expect(queries.map(({ query_params: given }) => (given['macs'] as unknown[]).length))
      .toEqual([100, 100, 50])
    expect(inserted).toHaveLength(250)
  })

  /** All pages from the second entry on, of a copy with these responses. */
  async function paged (...answers: readonly (readonly object[])[]) {
    const { copy, queries } = copyOn([{ first: '1' }], ...answers)
    const pages = []
    for await (const page of copy.pages(TENANT, { seq: 2, atMs: 7 })) pages.push(page)
    return { pages, queries: queries.map(({ query_params: given }) => given) }
  }

  it('reads pages with one query each, which hold all rows of a seq', async () => {
    const [one, two, three] = await stored()
    const { pages, queries } = await paged(
      [...Array(1_999).fill(one), two!], [two!, { ...two!, reason: 'x' }, three!])
    expect(pages).toEqual([
      { entries: [entry(1)], forged: [] }, { entries: [entry(2), entry(3)], forged: [2] },
    ])
    expect(queries).toEqual([
      { tenant: TENANT, seq: 2, atMs: 7 },
      { tenant: TENANT, seq: '1', limit: 2_000 }, { tenant: TENANT, seq: '2', limit: 2_000 },
    ])
  })

  it('grows a page that the rows of one seq fill', async () => {
    const [one, two] = await stored()
    const { pages, queries } = await paged(
      Array(2_000).fill(one), [...Array(31_999).fill(one), two!], [two!])
    expect(pages.map(page => page.entries)).toEqual([[entry(1)], [entry(2)]])
    expect(queries.slice(1).map(({ limit }) => limit)).toEqual([2_000, 32_000, 2_000])
  })

  const chain = (...all: readonly ReturnType<typeof entry>[]) =>
    all.reduce(extendChain, CHAIN_START)

  it('extends heads with one query, and has none for a tenant without entries', async () => {
    const [, two, three] = await stored()
    const { copy, queries, forged } = copyOn([two!, two!, three!])
    const from = new Map([[TENANT, chain(entry(1))], ['org_new.live', CHAIN_START]])
    expect(await copy.heads(from)).toEqual(new Map([[TENANT, chain(...entries)]]))
    expect(queries.map(({ query_params: given }) => given)).toEqual([{
      tenants: [TENANT, 'org_new.live'], after: new Map([[TENANT, 1], ['org_new.live', 0]]),
    }])
    expect(await copy.heads(new Map())).toEqual(new Map())
    expect([queries.length, forged]).toEqual([1, []])
  })

  it('leaves forged rows out of heads, and lists missing seqs', async () => {
    const [one, , three] = await stored()
    const { copy } = copyOn([one!, { ...one!, seq: '2' }, three!, { ...three!, seq: HUGE }])
    const head = (await copy.heads(new Map([[TENANT, CHAIN_START]]))).get(TENANT)
    expect(head).toEqual(chain(entry(1), entry(3)))
    expect(head?.missing).toEqual([[2, 2]])
  })

  it('reads authentic entries newest first, each once', async () => {
    const [one, two, three] = await stored()
    const { copy, queries } = copyOn([three!, { ...two!, reason: 'x' }, two!, two!, one!])
    const read = await copy.readNewest(TENANT, { limit: 3, before: 4 })
    expect(read).toEqual(entries.toReversed())
    expect(queries[0]?.query_params).toEqual({ tenant: TENANT, before: 4, type: '' })
    await copy.readNewest(TENANT, { limit: 3, type: 'topup' })
    expect(queries[1]?.query_params).toMatchObject({ type: 'topup' })
  })

  it('makes insert tokens that need the MAC keys', async () => {
    const [own, other] = [copyOn(), createClickhouseDouble()]
    const keys = { MESSAGE_KEYS: { 1: Buffer.alloc(32, 2).toString('base64') } }
    const mac = createRecordMac({ ...keys, MESSAGE_KEY_ACTIVE: '1' })
    await own.copy.append(entries)
    await own.copy.append(entries)
    await createJournalCopy(other.clickhouse, mac).append(entries)
    expect(own.tokens[1]).toBe(own.tokens[0])
    expect(other.tokens[0]).not.toBe(own.tokens[0])
  })
})
