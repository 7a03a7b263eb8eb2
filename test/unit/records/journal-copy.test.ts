import { describe, expect, it } from 'vitest'
import { createRecordMac, type SignedRecord } from '../../../services/lib/record-mac.ts'
import { continueChain, START } from '../../../services/records/journal-chain.ts'
import { createJournalCopy } from '../../../services/records/journal-copy.ts'
import { messageKeysOf } from '../../support/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../support/stage-doubles.ts'
import { createClickhouseDouble } from '../../support/stored.ts'

const entry = (seq: number, tenant = TENANT) => ({
  ...entryOf(tenant, acceptedJob()),
  seq,
  header: Buffer.from(`sealed ${seq}`),
})
const { links } = continueChain(START, [entry(1), entry(2), entry(3)])
const HUGE = '9223372036854775807'

/** The copy on ClickHouse that answers as given; `forged` are the records that are reported. */
function copyOn (...answers: readonly (readonly object[])[]) {
  const double = createClickhouseDouble(...answers)
  const forged: SignedRecord[] = []
  const mac = createRecordMac(messageKeysOf(), record => forged.push(record))
  return { ...double, forged, copy: createJournalCopy(double.clickhouse, mac) }
}

/** Rows as they are stored, as ClickHouse gives them back. */
async function stored () {
  const { copy, inserted } = copyOn()
  await copy.append(links)
  return inserted.map(({ at, ...row }) => ({
    ...Object.fromEntries(Object.entries(row).map(([name, value]) => [name, String(value)])),
    at: String(Date.parse(String(at))),
  }) as Readonly<Record<string, string>>)
}

describe('the copy of the journal in ClickHouse', () => {
  it('gives back the entries that it was given, once each', async () => {
    const [one, two, three] = await stored()
    const { copy, forged } = copyOn([one!, one!, two!, three!])
    expect(await copy.read(TENANT)).toEqual({ links, forged: [] })
    expect(forged).toEqual([])
  })

  it('leaves out rows of which anything was changed, and names them', async () => {
    const [one, two, three] = await stored()
    const changes = [
      { amount_micros: '1' }, { reason: 'x' }, { seq: HUGE }, { mac: '' }, { prev: one!['hash'] },
      { header_base64: Buffer.from('x').toString('base64') }, { mac: two!['mac'] },
    ]
    const rows = changes.map(change => ({ ...three, ...change }))
    const { copy, forged } = copyOn([one!, ...rows, two!])
    const found = await copy.read(TENANT)
    expect(found.links).toEqual(links.slice(0, 2))
    expect(found.forged).toEqual([3, 3, Number(HUGE), 3, 3, 3, 3])
    expect(forged).toHaveLength(7)
    expect(forged[0]).toMatchObject({ table: 'journal', tenant: TENANT, id: '3' })
  })

  it('leaves out rows of one tenant that were stored for another', async () => {
    const { copy } = copyOn(await stored())
    expect(await copy.read('org_other.live')).toEqual({ links: [], forged: [1, 2, 3] })
  })

  it('finds the ends of chains by one query', async () => {
    const last = (await stored())[2]!
    const { copy, asked, forged } = copyOn([last])
    expect(await copy.heads([TENANT, 'org_new.live']))
      .toEqual(new Map([[TENANT, { seq: 3, hash: links[2]?.hash }]]))
    expect(asked.map(({ query_params: given }) => given))
      .toEqual([{ tenants: [TENANT, 'org_new.live'] }])
    expect(await copy.heads([])).toEqual(new Map())
    expect([asked.length, forged]).toEqual([1, []])
  })

  it('finds the end of a chain below any number of forged rows', async () => {
    const [one, two, three] = await stored()
    const above = { ...three!, seq: HUGE }
    const many = Array.from({ length: 3_000 }, (_, index) =>
      ({ ...three!, seq: `${9_000 - index}` }))
    const { copy, asked } = copyOn(
      [above], [above, ...many, { ...three!, amount_micros: '1' }, three!, two!, one!])
    expect(await copy.heads([TENANT]))
      .toEqual(new Map([[TENANT, { seq: 3, hash: links[2]?.hash }]]))
    expect(asked).toHaveLength(2)
    const nothing = copyOn([above], [above])
    expect(await nothing.copy.heads([TENANT])).toEqual(new Map())
  })

  it('reads authentic entries newest first, each once', async () => {
    const [one, two, three] = await stored()
    const { copy, asked } = copyOn([three!, { ...two!, reason: 'x' }, two!, two!, one!])
    const read = await copy.readNewest(TENANT, { limit: 3, before: 4 })
    expect(read).toEqual(links.toReversed())
    expect(asked[0]?.query_params).toEqual({ tenant: TENANT, before: 4 })
  })

  it('has inserts dropped as repeated only by whoever has the keys', async () => {
    const [own, other] = [copyOn(), createClickhouseDouble()]
    const keys = { MESSAGE_KEYS: { 1: Buffer.alloc(32, 2).toString('base64') } }
    const mac = createRecordMac({ ...keys, MESSAGE_KEY_ACTIVE: '1' })
    await own.copy.append(links)
    await own.copy.append(links)
    await createJournalCopy(other.clickhouse, mac).append(links)
    expect(own.tokens[1]).toBe(own.tokens[0])
    expect(other.tokens[0]).not.toBe(own.tokens[0])
  })
})
