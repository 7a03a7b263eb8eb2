import { describe, expect, it } from 'vitest'
import type { Journal } from '../../../schemas/types.ts'
import {
  canonicalText, CHAIN_START, createHeadsCodec, createJournalCopy, cutPage, extendChain, hashAfter,
  Movements, trackContradictions, trustedEntry,
} from '../../../services/money/journal.ts'
import { createRecordMac, type SignedRecord } from '../../../services/runtime/crypto/mac.ts'
import { createClickhouseDouble } from '../../support/clickhouse/stored.ts'
import { messageKeysOf } from '../../support/keys/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../support/stage-messages.ts'

const topUp = (seq: number, change: Partial<Journal> = {}): Journal => ({
  tenant: 'org_1.live',
  seq,
  entryId: `top-${seq}`,
  type: 'topup',
  job: '',
  amountMicros: 5,
  chargeMicros: 0,
  availableMicros: 5 * seq,
  reservedMicros: 0,
  chargedMicros: 0,
  fundedMicros: 5 * seq,
  at: 1_700_000_000_000,
  reason: 'gift',
  header: null,
  ...change,
})

describe('movements with several numbers', () => {
  const reserve = topUp(2, { type: 'reserve', job: 'j', entryId: 'j:reserve', amountMicros: 4 })
  const settle = { ...reserve, type: 'settle', entryId: 'j:settle', chargeMicros: 3 }
  const dear = { ...settle, chargeMicros: 4 }
  const release = { ...settle, type: 'void', entryId: 'j:void', chargeMicros: 0 }

  it.each<readonly [string, readonly Journal[], number]>([
    ['a top-up', [topUp(1), topUp(1, { seq: 3 }), reserve, settle], 3],
    ['an end that differs', [topUp(1), reserve, dear, settle, { ...dear, seq: 9 }], 3],
    ['an end without a charge', [topUp(1), reserve, settle, release, dear], 0],
  ])('count once, in any order: %s', (_, entries, charged) => {
    const { length } = entries
    const orders = Array.from({ length }, (_none, at) => [...entries.slice(at), ...entries])
    for (const order of [...orders, entries.toReversed()]) {
      const movements = new Movements()
      for (const entry of order) movements.add(entry)
      expect(movements.sum).toEqual({
        availableMicros: 5 - charged, reservedMicros: 0, chargedMicros: charged, fundedMicros: 5,
      })
      expect(movements.chooseCounted(order).map(({ chargeMicros }) => chargeMicros).toSorted())
        .toEqual([0, 0, charged])
    }
  })

  it.each([[2, 5], [-1, -3], [-4, 4]])('move the amount nearer to 0: %d, not %d', (less, more) => {
    for (const order of [[less, more], [more, less]]) {
      const movements = new Movements()
      for (const amountMicros of order) movements.add(topUp(1, { type: 'adjust', amountMicros }))
      expect([movements.sum.fundedMicros, movements.amountOf('top-1')]).toEqual([less, less])
    }
  })

  it('that were reconstructed count nothing beside what was lost', () => {
    const [made, lost, alike] = ['missing:2', 'lost', 'alike'].map(id => topUp(2, { entryId: id }))
    const other = topUp(2, { entryId: 'other', amountMicros: 6 })
    const sums = [
      [made!, lost!, 5], [lost!, made!, 5], [made!, other, 11], [other, made!, 11],
    ] as const
    for (const [first, second, sum] of sums) {
      const movements = new Movements()
      for (const entry of [first, second, first, second, made!]) movements.add(entry)
      expect(movements.sum.fundedMicros).toBe(sum)
      expect(movements.chooseCounted([made!, lost!]))
        .toEqual(sum === 5 ? [lost] : [made])
      movements.add(alike!)
      expect(movements.sum.fundedMicros).toBe(sum === 5 ? 10 : 11)
    }
  })

  const resolutionOf = (...entries: readonly Journal[]) => {
    const contradictions = trackContradictions()
    for (const entry of entries) contradictions.add(entry)
    return contradictions.end()
  }

  it('are resolved by balances with all of them, and by no others', () => {
    const other = topUp(2, { entryId: 'other' })
    const twice = [topUp(1), topUp(2), other]
    expect(resolutionOf(...twice, topUp(3))).toEqual({ upTo: 0, numbers: 0 })
    const resolved = [...twice, topUp(3), topUp(4, { entryId: 'other' })]
    expect(resolutionOf(...resolved)).toEqual({ upTo: 4, numbers: 1 })
    expect(resolutionOf(...resolved.toSpliced(1, 1))).toEqual({ upTo: 0, numbers: 0 })
    const again = topUp(5, { entryId: 'again' })
    expect(resolutionOf(...resolved, topUp(5), again, topUp(6))).toEqual({ upTo: 4, numbers: 1 })
    expect(resolutionOf(...resolved, topUp(5), again, topUp(6), topUp(7, { entryId: 'again' })))
      .toEqual({ upTo: 7, numbers: 2 })
  })

  it('are resolved up to the last one that repeats another', () => {
    const other = { entryId: 'other' }
    const free = { entryId: 'free', amountMicros: 0, availableMicros: 15, fundedMicros: 15 }
    expect(resolutionOf(
      topUp(1), topUp(2), topUp(2, other), topUp(2, free), topUp(3, other), topUp(4, free)
    )).toEqual({ upTo: 4, numbers: 1 })
  })

  it('without a contradiction are resolved by trust alone', () => {
    const wrong = topUp(2, { availableMicros: 99, fundedMicros: 99 })
    expect(resolutionOf(topUp(1), wrong, topUp(3))).toEqual({ upTo: 0, numbers: 0 })
    const trusted = trustedEntry(wrong, topUp(2))
    expect(trusted).toMatchObject({ seq: 3, amountMicros: 0, availableMicros: 10 })
    expect(resolutionOf(topUp(1), wrong, trusted)).toEqual({ upTo: 3, numbers: 0 })
  })
})

describe('the chain of the journal', () => {
  it('has a text and a first hash that never change', () => {
    expect(canonicalText(topUp(1, { header: Buffer.from('sealed') }))).toBe(
      '[1,"org_1.live",1,"top-1","topup","",5,0,5,0,0,5,1700000000000,"gift",' +
      '"c9d0036bed6744bcdf692fc980d8717d7e5f5a4f4e8266b4a84982602fb1cd09"]')
    expect(extendChain(CHAIN_START, topUp(1)).hash)
      .toBe('b4674e6439d9c541132e369cd11da5520794f7ea27faf92f8b789f6b8d8180bb')
  })

  it('depends on every field and on the entry before', () => {
    const changes: Partial<Journal>[] = [
      { tenant: 'x' }, { seq: 2 }, { entryId: 'x' }, { type: 'adjust' }, { job: 'x' },
      { amountMicros: 6 }, { chargeMicros: 1 }, { availableMicros: 6 }, { reservedMicros: 1 },
      { chargedMicros: 1 }, { fundedMicros: 6 }, { at: 1 }, { reason: 'x' },
      { header: Buffer.from('x') }, { header: Buffer.from('y') },
    ]
    const hashes = [topUp(1), ...changes.map(change => topUp(1, change))]
      .map(one => hashAfter(CHAIN_START.hash, canonicalText(one)))
    const later = hashAfter(hashes[0]!, canonicalText(topUp(1)))
    expect(new Set([...hashes, later]).size).toBe(17)
  })

  const headOf = (...seqs: readonly number[]) =>
    seqs.reduce((head, seq) => extendChain(head, topUp(seq)), CHAIN_START)

  it('is the same though entries are repeated', () => {
    expect(headOf(1, 1, 2, 1, 3, 3)).toEqual(headOf(1, 2, 3))
    expect(headOf(1, 2, 3)).toMatchObject({ seq: 3, missing: [] })
  })

  it('continues after gaps, and its head names what was missing', () => {
    const texts = [3, 4, 7].map(seq => canonicalText(topUp(seq)))
    expect(headOf(3, 4, 7)).toEqual({
      seq: 7, hash: texts.reduce(hashAfter, CHAIN_START.hash), missing: [[1, 2], [5, 6]],
    })
  })
})

const codec = createHeadsCodec(messageKeysOf())
const heads = {
  at: 1_700_000_000_000,
  tenants: [{ tenant: 'org_1.live', seq: 7, hash: 'abc', missing: [[3, 4]] as const }],
}

it('heads of the journal are signed JSON in one line, however its fields are ordered', () => {
  const text = codec.encode(heads)
  expect(text).not.toContain('\n')
  expect(JSON.parse(text)).toEqual({ version: 1, ...heads, mac: expect.stringMatching(/^1:.+=$/) })
  expect(codec.decode(text)).toMatchObject(heads)
  const { version, at, tenants, mac } = JSON.parse(text)
  const [{ tenant, seq, hash, missing }] = tenants
  const reordered = { mac, tenants: [{ missing, hash, seq, tenant }], at, version }
  expect(codec.decode(JSON.stringify(reordered, undefined, 1))).toMatchObject(heads)
})

it('heads of another hand, or that were changed or cut, are not authentic', () => {
  const text = codec.encode(heads)
  const others = [
    '', 'null', '[]', '{}', '{"version":1,"tenants":[null]}', text.slice(0, -1),
    text.replace('"seq":7', '"seq":6'), text.replace('"at":17', '"at":16'),
    text.replace('abc', 'abd'), text.replace('[3,4]', '[3,5]'),
    text.replace('[3,4]', ''), text.replace('org_1', 'org_2'),
    text.replace('"version":1', '"version":2'), text.replace('"mac":"1:', '"mac":"2:'),
    JSON.stringify({ version: 1, at: heads.at, tenants: [], mac: JSON.parse(text).mac }),
    createHeadsCodec(messageKeysOf(), 'proven journal head').encode(heads),
    createHeadsCodec({
      MESSAGE_KEYS: { 1: Buffer.alloc(32, 2).toString('base64') }, MESSAGE_KEY_ACTIVE: '1',
    }).encode(heads),
  ]
  expect(others.map(other => codec.decode(other))).toEqual(others.map(() => undefined))
})

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
    const [one, two, three] = await stored()
    const { copy, queries, inserted } = copyOn([], [two!, three!], [one!, two!, three!])
    expect(await copy.append([entry(3), entry(2), entry(3)])).toEqual([entry(3), entry(2)])
    expect(await copy.append([entry(3), entry(1), entry(2)])).toEqual([entry(1)])
    expect(await copy.append(entries)).toEqual([])
    expect(inserted.map(({ seq }) => seq)).toEqual([3, 2, 1])
    expect(queries[0]?.parameters)
      .toEqual({ tenants: [TENANT], seqs: [3, 2], named: new Map([[TENANT, [3, 2]]]) })
  })

  it('stores an entry again whose row was changed beside its MAC', async () => {
    const [one] = await stored()
    const { copy } = copyOn([{ ...one!, amount_micros: '1' }])
    expect(await copy.append([entry(1)])).toEqual([entry(1)])
  })

  it('stores no entry again that an earlier message key signed', async () => {
    const { clickhouse, inserted } = createClickhouseDouble(await stored())
    const { MESSAGE_KEYS: keys } = messageKeysOf()
    const mac = createRecordMac({
      MESSAGE_KEYS: { ...keys, 2: Buffer.alloc(32, 2).toString('base64') }, MESSAGE_KEY_ACTIVE: '2',
    })
    expect(await createJournalCopy(clickhouse, mac).append(entries)).toEqual([])
    expect(inserted).toEqual([])
  })

  it('looks up a bounded number of entries per query', async () => {
    const { copy, queries, inserted } = copyOn()
    await copy.append(Array.from({ length: 250 }, (_, index) => entry(index + 1)))
    expect(queries.map(({ parameters }) => (parameters['seqs'] as unknown[]).length))
      .toEqual([100, 100, 50])
    expect(inserted).toHaveLength(250)
  })

  /** All pages from the second entry on, of a copy with these responses. */
  async function paged (...answers: readonly (readonly object[])[]) {
    const { copy, queries } = copyOn([{ first: '1' }], ...answers)
    const pages = []
    for await (const page of copy.pages(TENANT, { seq: 2, atMs: 7 })) pages.push(page)
    return { pages, queries: queries.map(({ parameters }) => parameters) }
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
    expect(queries.map(({ parameters }) => parameters)).toEqual([{
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
    const { copy, queries } = copyOn(
      ['3', '2', '1'].map(seq => ({ seq })), [{ seq: '0' }],
      [three!, { ...two!, reason: 'x' }, two!, two!, one!])
    const read = await copy.readNewest(TENANT, { limit: 3, before: 4 })
    expect(read).toEqual(entries.toReversed())
    expect(queries.map(({ parameters }) => parameters)).toEqual([
      { tenant: TENANT, before: '4', type: '', limit: 3 },
      { tenant: TENANT, first: '1', last: '3', limit: 500 },
      { tenant: TENANT, seqs: ['3', '2', '1', '0'] },
    ])
  })

  it('reads on where what it has read counts nothing, more each time', async () => {
    const [one, , three] = await stored()
    const { copy, queries } = copyOn(
      [{ seq: '3' }], [], [{ ...three!, mac: '' }], [{ seq: '1' }], [], [one!])
    expect(await copy.readNewest(TENANT, { limit: 1 })).toEqual([entry(1)])
    expect(queries[3]?.parameters).toEqual({ tenant: TENANT, before: '3', type: '', limit: 500 })
  })

  it('is cut into pages between two numbers', () => {
    const [first, ...rest] = [3, 2, 2, 1].map(seq => ({ seq }))
    const all = [first!, ...rest]
    expect([1, 2, 3, 4, 5].map(limit => cutPage(all, limit).length)).toEqual([1, 3, 3, 4, 4])
  })
})
