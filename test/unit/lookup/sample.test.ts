import fc from 'fast-check'
import { expect, it } from 'vitest'
import { ChunkLoader, jobTermsOf, readChunks } from '../../../services/lookup/read.ts'
import { chooseSample } from '../../../services/lookup/row-kinds.ts'
import { chunksOf } from '../../support/stage-messages.ts'

const phone = (n: number) => `+1212${String(n).padStart(7, '0')}`
const list = (rows: number) => Array.from({ length: rows }, (_, n) => phone(n))

/** The digest of the sample of a list, and its contacts. */
async function sampleOf (canonicals: readonly string[], service = 'phone-validation') {
  const messages = chunksOf(canonicals, { service, chunkRows: 64 })
  const terms = jobTermsOf(messages[0]!.value, 0, () => 10)
  const loader = new ChunkLoader({
    find: async (_scope, { length }) => new Array<undefined>(length / 16).fill(undefined),
  })
  const { chunks } = await readChunks(messages, { terms, loader })
  const sample = await chooseSample(chunks, terms)
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
