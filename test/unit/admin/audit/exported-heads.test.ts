import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { afterAll, describe, expect, it } from 'vitest'
import {
  canonicalText, CHAIN_START, createHeadsCodec, extendChain,
} from '../../../../services/money/journal-chain.ts'
import { UsageError } from '../../../../services/runtime/platform/run-command.ts'
import {
  checkExportedHead, readExportedHeads,
} from '../../../../services/admin/audit/journals.ts'
import { messageKeysOf } from '../../../support/keys/signed.ts'
import { acceptedJob, entryOf, TENANT } from '../../../support/stage-doubles.ts'

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

describe('a file of exported heads', () => {
  it('is read as the greatest head of each tenant', async () => {
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

  it('is rejected with the number of a line that was changed', async () => {
    writeFileSync(file, [line(1), line(2, ['a', 5, 'a5']).replace('"seq":5', '"seq":4')].join('\n'))
    await expect(readExportedHeads(file, keys))
      .rejects.toThrow(`line 2 of ${file} is not authentic`)
  })

  it('is rejected when it is missing or empty', async () => {
    writeFileSync(file, '')
    await expect(readExportedHeads(file, keys)).rejects.toThrow('contains no exported journal head')
    for (const [path, reason] of [[`${folder}/none`, 'ENOENT'], [folder, 'EISDIR']] as const) {
      const read = readExportedHeads(path, keys)
      await expect(read).rejects.toBeInstanceOf(UsageError)
      await expect(read).rejects.toThrow(`--journal-head: ${path} cannot be read: ${reason}`)
    }
  })
})

const entries = [1, 2, 3].map(seq => ({ ...entryOf(TENANT, acceptedJob()), seq }))
const texts = new Map(entries.map(entry => [entry.seq, canonicalText(entry)]))
const headOf = (some: typeof entries) => ({ ...some.reduce(extendChain, CHAIN_START), at: 0 })
const head = headOf(entries.slice(0, 2))
const exported = `entry 2 with hash ${head.hash} was exported at 1970-01-01T00:00:00.000Z`
const found = (...details: readonly string[]) => details.map(detail =>
  ({ job: '', rule: 'the journal contains the exported head', detail }))

describe('an exported head', () => {
  it('is in both journals, which may continue after it', () => {
    expect(checkExportedHead(head, { copy: entries, kafka: texts })).toEqual([])
    expect(checkExportedHead(head, { copy: entries, kafka: undefined })).toEqual([])
  })

  it('allows entries that were missing at the export to be missing or present', () => {
    const gapped = headOf(entries.toSpliced(1, 1))
    expect(gapped).toMatchObject({ seq: 3, missing: [[2, 2]] })
    expect(checkExportedHead(gapped, { copy: entries.toSpliced(1, 1), kafka: texts })).toEqual([])
    expect(checkExportedHead(gapped, { copy: entries.slice(0, 2), kafka: undefined }))
      .toMatchObject([{ detail: expect.stringMatching(/ClickHouse lacks entry 3$/) }])
  })

  it('is not in a journal whose end was deleted', () => {
    expect(checkExportedHead(head, { copy: entries.slice(0, 1), kafka: new Map() })).toEqual(found(
      `${exported}; the journal in ClickHouse lacks entry 2`,
      `${exported}; the journal in Kafka lacks entry 1`))
  })

  it('is not in a journal with another entry up to its number', () => {
    const other = entries.map(entry => ({ ...entry, reason: entry.seq === 1 ? 'x' : entry.reason }))
    const { hash } = headOf(other.slice(0, 2))
    expect(checkExportedHead(head, { copy: other, kafka: texts }))
      .toEqual(found(`${exported}; the journal in ClickHouse has the hash ${hash} there`))
  })

  it('is a breach for a tenant that Redis does not know', () => {
    expect(checkExportedHead(head, { copy: undefined, kafka: texts }))
      .toEqual(found(`${exported}; Redis does not know the tenant`))
  })
})
