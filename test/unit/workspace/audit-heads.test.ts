import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, describe, expect, it } from 'vitest'
import { canonicalText, follow, START } from '../../../services/records/journal-chain.ts'
import { createHeadsCodec } from '../../../services/records/journal-heads.ts'
import { checkHead, readExportedHeads } from '../../../services/workspace/audit-heads.ts'
import { messageKeysOf } from '../../support/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../support/stage-doubles.ts'

const folder = mkdtempSync(`${tmpdir()}/verification-jobs-heads-`)
afterAll(() => rmSync(folder, { recursive: true }))
const keys = messageKeysOf()
const codec = createHeadsCodec(keys)
const file = `${folder}/heads.ndjson`

const line = (at: number, ...tenants: readonly [tenant: string, seq: number, hash: string][]) =>
  codec.encode({
    at,
    tenants: tenants.map(([tenant, seq, hash]) =>
      ({ tenant, seq, hash, missing: [] }))
  })

describe('exported heads', () => {
  it('count by the greatest of each tenant, as a later one may be of a cut journal', async () => {
    writeFileSync(file, [
      line(1, ['a', 2, 'a2'], ['gone', 1, 'g1']), line(2, ['a', 5, 'a5']),
      line(3, ['a', 4, 'a4'], ['b', 1, 'b1']), '',
    ].join('\n'))
    expect(await readExportedHeads(file, keys)).toEqual(new Map([
      ['a', { seq: 5, hash: 'a5', missing: [], at: 2 }],
      ['gone', { seq: 1, hash: 'g1', missing: [], at: 1 }],
      ['b', { seq: 1, hash: 'b1', missing: [], at: 3 }],
    ]))
  })

  it('in a line that was changed are an error that names it', async () => {
    writeFileSync(file, [line(1), line(2, ['a', 5, 'a5']).replace('"seq":5', '"seq":4')].join('\n'))
    await expect(readExportedHeads(file, keys))
      .rejects.toThrow(`line 2 of ${file} is not authentic`)
  })

  it('in no file, or in one without a line, are an error', async () => {
    writeFileSync(file, '')
    await expect(readExportedHeads(file, keys)).rejects.toThrow('no exported journal head')
    await expect(readExportedHeads(`${folder}/none`, keys)).rejects.toThrow('ENOENT')
  })
})

const entries = [1, 2, 3].map(seq => ({ ...entryOf(TENANT, acceptedJob()), seq }))
const texts = new Map(entries.map(entry => [entry.seq, canonicalText(entry)]))
const headOf = (some: typeof entries) => ({ ...some.reduce(follow, START), at: 0 })
const head = headOf(entries.slice(0, 2))
const exported = `entry 2 with hash ${head.hash} was exported at 1970-01-01T00:00:00.000Z`
const found = (...details: readonly string[]) => details.map(detail =>
  ({ job: '', law: 'the journal contains the exported head', detail }))

describe('an exported head', () => {
  it('is in both journals, which go on behind it', () => {
    expect(checkHead(head, { copy: entries, kafka: texts })).toEqual([])
    expect(checkHead(head, { copy: entries, kafka: undefined })).toEqual([])
  })

  it('is in journals that lack what was missing when it was exported, or have it by now', () => {
    const gapped = headOf(entries.toSpliced(1, 1))
    expect(gapped).toMatchObject({ seq: 3, missing: [[2, 2]] })
    expect(checkHead(gapped, { copy: entries.toSpliced(1, 1), kafka: texts })).toEqual([])
    expect(checkHead(gapped, { copy: entries.slice(0, 2), kafka: undefined }))
      .toMatchObject([{ detail: expect.stringMatching(/ClickHouse lacks entry 3$/) }])
  })

  it('is missed in a journal of which the end was deleted', () => {
    expect(checkHead(head, { copy: entries.slice(0, 1), kafka: new Map() })).toEqual(found(
      `${exported}; the journal in ClickHouse lacks entry 2`,
      `${exported}; the journal in Kafka lacks entry 1`))
  })

  it('is missed in a journal that has another entry, in its place or before', () => {
    const other = entries.map(entry => ({ ...entry, reason: entry.seq === 1 ? 'x' : entry.reason }))
    const { hash } = headOf(other.slice(0, 2))
    expect(checkHead(head, { copy: other, kafka: texts }))
      .toEqual(found(`${exported}; the journal in ClickHouse has the hash ${hash} there`))
  })

  it('of a tenant that Redis does not know is missed', () => {
    expect(checkHead(head, { copy: undefined, kafka: texts }))
      .toEqual(found(`${exported}; Redis does not know the tenant`))
  })
})
