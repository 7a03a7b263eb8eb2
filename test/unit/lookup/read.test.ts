import { setImmediate as turnOfLoop } from 'node:timers/promises'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { chooseSample, ChunkLoader, toJobTerms, readChunks } from '../../../services/lookup/read.ts'
import type { ServiceSlug } from '../../../services/topology.ts'
import {
  cachedRecord, chunksOf, incoming, JOB, tokenFor, QUOTED_AT_MS,
} from '../../support/stage-messages.ts'

const PHONE = '+12127365000'

const EMPTY_CACHE = {
  find: async (_scope: object, { length }: Buffer) =>
    new Array<undefined>(length / 16).fill(undefined),
}

describe('the loader of chunks', () => {
  /** Chunks of 10 bytes each, and the numbers of those that were opened. */
  function counted (many: number) {
    const opened: number[] = []
    const chunks = Array.from({ length: many }, (_, number) => {
      const [chunk] = chunksOf([PHONE])
      const rows = () => {
        opened.push(number)
        return chunk!.rows()
      }
      const { raw, ...message } = incoming('rows.normalized', chunk!.value, { rows })
      return { ...message, raw: { ...raw, value: Buffer.alloc(10) } }
    })
    return { opened, chunks }
  }
  const roomFor = (chunks: number) => chunks * (1 + 4 * 10)

  it('drops the first chunks when memory is full, and loads them again', async () => {
    const { opened, chunks } = counted(3)
    const loader = new ChunkLoader(EMPTY_CACHE, roomFor(2))
    for (const chunk of chunks) await loader.load(chunk)
    await loader.load(chunks[1]!)
    await loader.load(chunks[2]!)
    expect(opened).toEqual([0, 1, 2])
    expect((await loader.load(chunks[0]!)).rows.canonicals).toEqual([PHONE])
    expect(opened).toEqual([0, 1, 2, 0])
    await loader.load(chunks[2]!)
    await loader.load(chunks[1]!)
    expect(opened).toEqual([0, 1, 2, 0, 1])
  })

  it('prefetches while there is memory, and never fails by it', async () => {
    const { opened, chunks } = counted(3)
    const loader = new ChunkLoader(EMPTY_CACHE, roomFor(2))
    for (const chunk of chunks) loader.prefetch(chunk)
    await loader.load(chunks[1]!)
    expect(opened).toEqual([0, 1])
    loader.forget([chunks[0]!])
    loader.prefetch(chunks[2]!)
    await loader.load(chunks[2]!)
    expect(opened).toEqual([0, 1, 2])
    const unreadable = { ...chunks[0]!, rows: () => { throw new Error('no rows') } }
    new ChunkLoader(EMPTY_CACHE).prefetch(unreadable)
  })

  it('does not look up a job with forceFresh', async () => {
    const loader = new ChunkLoader({ find: async () => { throw new Error('unexpected call') } })
    const [chunk] = chunksOf([PHONE], { forceFresh: true })
    expect((await loader.load(chunk!)).records).toEqual([])
  })

  /** A cache whose lookups the test ends. */
  function slowCache () {
    const ends: ((found: readonly undefined[]) => void)[] = []
    const find = () => new Promise<readonly undefined[]>(resolve => { ends.push(resolve) })
    return { ends, find }
  }

  it('looks up two chunks at a time', async () => {
    const { chunks } = counted(4)
    const { ends, find } = slowCache()
    const loader = new ChunkLoader({ find })
    const loaded = Promise.all(chunks.map(chunk => loader.load(chunk)))
    for (let turn = 0; turn < 10; turn++) await turnOfLoop()
    expect(ends).toHaveLength(2)
    for (let next = 0; next < 4; next++) {
      ends[next]!([undefined])
      for (let turn = 0; turn < 3; turn++) await turnOfLoop()
    }
    expect(await loaded).toHaveLength(4)
  })
})

/** The chunks of a job with these messages, for a policy of a day. */
const readAll = (
  messages: ReturnType<typeof chunksOf>, cache: ConstructorParameters<typeof ChunkLoader>[0]
) => readChunks(messages, {
  terms: toJobTerms(messages[0]!.value, 86_400_000, () => 50), loader: new ChunkLoader(cache),
})

/** The duplicates and counts of a job by the canonical forms of its rows; '' is an invalid one. */
async function readJob (canonicals: readonly string[], chunkRows: number) {
  const { chunks, counts } = await readAll(chunksOf(canonicals, { chunkRows }), EMPTY_CACHE)
  const { originals = [], copies = [] } = chunks[0]?.duplicates ?? {}
  return { counts, originals: [...originals], copies: [...copies] }
}

describe('the chunks of a job', () => {
  it.each([
    ['is of this job, which pays for it', { job: JOB }, {}],
    ['is older than the policy allows', { checkedAtMs: QUOTED_AT_MS - 86_400_001 }, {}],
    ['is not asked for', {}, { forceFresh: true }],
  ])('have no hit where a record %s', async (_case, change, terms) => {
    const { counts } =
      await readAll(chunksOf([PHONE], terms), { find: async () => [cachedRecord(change)] })
    expect(counts).toMatchObject({ cacheHits: 0, freshChecks: 1 })
  })

  it('have one original for each contact, the lowest row, however the job is split', async () => {
    const rows = fc.array(fc.constantFrom('', 'a', 'b', 'c', 'd'), { minLength: 1, maxLength: 40 })
    await fc.assert(fc.asyncProperty(rows, fc.integer({ min: 1, max: 9 }),
      async (contacts, chunkRows) => {
        const { originals, copies, counts } = await readJob(contacts, chunkRows)
        const expected = contacts.map((contact, row) =>
          contact === '' || contacts.indexOf(contact) === row ? -1 : contacts.indexOf(contact))
        expect(originals).toEqual(expected)
        expect(copies).toEqual(contacts.map((_, row) =>
          expected.filter(original => original === row).length))
        expect(counts.duplicateRows).toBe(expected.filter(original => original >= 0).length)
      }))
  })

  it('have duplicates by all bytes of a token, and across its versions', async () => {
    const [first, second] = chunksOf(
      [PHONE, '+12127365001', PHONE, '+12127365003'], { chunkRows: 2 })
    const token = tokenFor(PHONE)
    const tokens = Buffer.concat(
      [0, 15].map(at => Buffer.from(token).fill(token[at]! ^ 1, at, at + 1)))
    const read = async (tokenVersion: string) => {
      const other = {
        ...second!,
        value: { ...second!.value, tokenVersion },
        rows: () => ({ ...second!.rows(), tokens }),
      }
      const { counts, chunks } = await readAll([first!, other], EMPTY_CACHE)
      return [counts.duplicateRows, chunks.map(chunk => chunk.tokenVersion)]
    }
    expect(await read('1')).toEqual([0, ['1', '1']])
    expect(await read('2')).toEqual([1, ['1', '2']])
  })

  it('have duplicates in another spelling of the local part, across versions too', async () => {
    const [first, second] = chunksOf(
      ['Jane@example.com', 'jane@example.com'], { service: 'email-validation', chunkRows: 1 })
    const other = { ...second!, value: { ...second!.value, tokenVersion: '2' } }
    expect((await readAll([first!, other], EMPTY_CACHE)).counts)
      .toMatchObject({ duplicateRows: 1, freshChecks: 1 })
  })
})

const phone = (n: number) => `+1212${String(n).padStart(7, '0')}`
const list = (rows: number) => Array.from({ length: rows }, (_, n) => phone(n))

/** The digest of the sample of a list, and its contacts. */
async function sampleOf (
  canonicals: readonly string[], service: ServiceSlug = 'phone-validation'
) {
  const { chunks } =
    await readAll(chunksOf(canonicals, { service, chunkRows: 64 }), EMPTY_CACHE)
  const sample = await chooseSample(chunks, { lane: 'small' })
  return { digest: sample?.digest, contacts: sample?.rows.map(row => canonicals[row]!) ?? [] }
}

it('a sample is a tenth of the contacts, at most 100, and none below 20', async () => {
  const sizes = [199, 200, 209, 210, 999, 1_000, 3_000].map(async rows =>
    (await sampleOf(list(rows))).contacts.length)
  expect(await Promise.all(sizes)).toEqual([0, 20, 20, 21, 99, 100, 100])
})

it('a sample is the same in any order, and with any duplicates and invalid rows', async () => {
  const contacts = list(250)
  const first = await sampleOf(contacts)
  expect(new Set(first.contacts).size).toBe(25)
  const more = fc.array(fc.constantFrom('', ...contacts), { maxLength: 100 })
  await fc.assert(fc.asyncProperty(more, fc.infiniteStream(fc.nat()), async (fillers, keys) => {
    const shuffled = [...contacts, ...fillers].map(contact => ({ contact, key: keys.next().value }))
      .sort((one, other) => one.key - other.key).map(({ contact }) => contact)
    expect(await sampleOf(shuffled)).toEqual(first)
  }), { numRuns: 25 })
})

it('further contacts of a list replace few of its sample; services have their own', async () => {
  const first = await sampleOf(list(2_000))
  const { contacts } = await sampleOf(list(2_040))
  expect(first.contacts.filter(contact => contacts.includes(contact)).length)
    .toBeGreaterThanOrEqual(90)
  expect((await sampleOf(list(2_000), 'whatsapp')).digest).not.toBe(first.digest)
})
